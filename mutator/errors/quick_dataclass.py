"""Dataclasses that are quick to make: a command makes over a hundred of them before it does anything.

The decorator of ``dataclasses`` compiles six methods for each class. Only ``__init__`` depends on the class; the others
are the same for all classes here, so that a class is made in a third of the time. Type checkers see the decorator of
``dataclasses``.

>>> @dataclass(frozen=True)
... class Size:
...     rows: int
...     bytes: int = 0
>>> Size(2), Size(2) == Size(2, 0), len({Size(2), Size(2)})
(Size(rows=2, bytes=0), True, 1)
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses
    from operator import attrgetter

    def dataclass(cls=None, /, **options):
        """Make a dataclass, with the options of ``dataclasses.dataclass`` that ``_made`` has."""
        return _made(cls, **options) if cls is not None else lambda cls: _made(cls, **options)

    def _made(cls, *, init=True, eq=True, order=False, frozen=False, kw_only=False):
        if order:
            return dataclasses.dataclass(cls, init=init, eq=eq, order=order, frozen=frozen, kw_only=kw_only)
        own = dict(cls.__dict__)
        dataclasses.dataclass(cls, init=init, repr=False, eq=False, kw_only=kw_only)
        if "__repr__" not in own:
            cls.__repr__ = _repr
        if eq and "__eq__" not in own:
            cls.__eq__ = _eq
        if eq and own.get("__hash__") is None:
            cls.__hash__ = _hash if frozen else None
        if frozen:
            cls.__setattr__, cls.__delattr__ = _set_once, _refuse
        return cls

    def _set_once(self, name, value):
        """Let ``__init__`` set each field."""
        attributes = self.__dict__
        if name in attributes or name not in self.__dataclass_fields__:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        attributes[name] = value

    def _refuse(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def _repr(self):
        shown = (f"{one.name}={getattr(self, one.name)!r}" for one in dataclasses.fields(self) if one.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def _eq(self, other):
        if type(other) is not type(self):
            return NotImplemented
        values = _function(type(self), "_compared", lambda one: one.compare)
        return values(self) == values(other)

    def _hash(self):
        return hash(_function(type(self), "_hashed", lambda one: one.compare if one.hash is None else one.hash)(self))

    def _function(cls, name, chosen):
        """Return the function that gives the values of chosen fields, a tuple. name: of it, once it is made."""
        found = cls.__dict__.get(name)
        if found is None:
            found = staticmethod(_values(*(one.name for one in dataclasses.fields(cls) if chosen(one))))
            setattr(cls, name, found)
        return found.__func__

    def _values(*names):
        if len(names) > 1:
            return attrgetter(*names)
        return lambda one: tuple(getattr(one, name) for name in names)
