"""The users of a key in an index, the latest last: a tuple while they are few takes a fifth of a dict's memory."""

from collections.abc import Hashable, Sequence
from typing import TypeVar

FEW = 32

User = TypeVar("User", bound=Hashable)
Users = tuple[User, ...] | dict[User, None]


def users_of(listed: Sequence[User]) -> Users[User]:
    """Users in their order, each once."""
    return tuple(listed) if len(listed) <= FEW else dict.fromkeys(listed)


def with_user(users: Users[User], user: User) -> Users[User]:
    """The users with one added, or moved to the end. May change `users`."""
    if isinstance(users, tuple):
        return users_of([*(one for one in users if one is not user), user])
    users.pop(user, None)
    users[user] = None
    return users


def without_user(users: Users[User], user: User) -> Users[User]:
    """The users without one of them. May change `users`."""
    if isinstance(users, tuple):
        return tuple([one for one in users if one is not user])
    del users[user]
    return tuple(users) if len(users) < FEW else users
