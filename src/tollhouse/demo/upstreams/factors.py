"""A FastAPI application without any code for keys or payment: the prime factors of a number."""

from typing import Annotated

from fastapi import FastAPI, Path

app = FastAPI(title="Prime factors", version="1.0.0")


@app.get("/factors/{number}")
def factors(number: Annotated[int, Path(ge=2, le=1_000_000_000)]) -> list[int]:
    """The prime factors of a number, in order."""
    primes, divisor = [], 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            primes.append(divisor)
            number //= divisor
        divisor += 1
    return [*primes, number] if number > 1 else primes
