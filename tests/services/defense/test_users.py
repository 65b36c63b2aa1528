from tollhouse.services.defense.stories.cluster import FEW, Users, users_of, with_user, without_user


def test_users_keep_their_order_and_the_latest_is_last() -> None:
    users: Users[str] = users_of(["one"])
    for user in ("two", "three", "one"):
        users = with_user(users, user)
    assert list(users) == ["two", "three", "one"]
    assert list(without_user(users, "three")) == ["two", "one"]
    assert not without_user(users_of(["one"]), "one")


def test_many_users_behave_like_few() -> None:
    numbers = list(range(2 * FEW))
    users: Users[int] = users_of(numbers)
    assert isinstance(users, dict)
    users = with_user(users, 0)
    assert list(users) == [*numbers[1:], 0]
    for number in numbers[1:-2]:
        users = without_user(users, number)
    assert isinstance(users, tuple)
    assert list(users) == [*numbers[-2:], 0]


def test_one_user_too_many_makes_a_dict() -> None:
    users: Users[int] = users_of(range(FEW))
    assert isinstance(users, tuple)
    users = with_user(users, FEW)
    assert isinstance(users, dict)
    assert list(users) == list(range(FEW + 1))
