// An Express application without any code for keys or payment: the date of Easter of a year.
import express from "express";

const app = express();

// The Gregorian computus (Meeus, Jones and Butcher).
function easter(year) {
  const a = year % 19, b = Math.floor(year / 100), c = year % 100;
  const d = Math.floor(b / 4), e = b % 4, f = Math.floor((b + 8) / 25), g = Math.floor((b - f + 1) / 3);
  const h = (19 * a + b - d - g + 15) % 30, i = Math.floor(c / 4), k = c % 4;
  const l = (32 + 2 * e + 2 * i - h - k) % 7, m = Math.floor((a + 11 * h + 22 * l) / 451);
  const n = h + l - 7 * m + 114;
  return new Date(Date.UTC(year, Math.floor(n / 31) - 1, (n % 31) + 1)).toISOString().slice(0, 10);
}

app.get("/easter/:year", (request, response) => {
  const year = Number(request.params.year);
  if (!Number.isInteger(year) || year < 1583 || year > 9999) {
    response.status(400).json({ error: "the year must be 1583 to 9999" });
    return;
  }
  response.json({ year, easter: easter(year) });
});

const server = app.listen(Number(process.env.PORT), "127.0.0.1", () => console.log(server.address().port));
