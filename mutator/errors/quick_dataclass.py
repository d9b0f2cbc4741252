"""Dataclasses that are soon made: a command makes over a hundred of them before it does anything.

The decorator of ``dataclasses`` compiles six methods for each class. Only ``__init__`` depends on the class; the others
are the same for all classes here, so that a class is made in a third of the time. Type checkers see the decorator of
``dataclasses``: they refuse assignments to attributes of frozen instances, and nothing does at run time.

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
        """Make a dataclass, with the options of ``dataclasses.dataclass``."""
        return _made(cls, **options) if cls is not None else lambda cls: _made(cls, **options)

    def _made(cls, *, eq=True, frozen=False, order=False, **options):
        if order:
            return dataclasses.dataclass(cls, eq=eq, frozen=frozen, order=order, **options)
        own = dict(cls.__dict__)
        dataclasses.dataclass(cls, eq=False, repr=False, **options)
        if "__repr__" not in own:
            cls.__repr__ = _repr
        if eq:
            if "__eq__" not in own:
                cls.__eq__ = _eq
            if own.get("__hash__") is None:
                cls.__hash__ = _hash if frozen else None
        return cls

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
        """Return the function that gives the values of chosen fields of an instance. name: of it, once it is made."""
        found = cls.__dict__.get(name)
        if found is None:
            names = [one.name for one in dataclasses.fields(cls) if chosen(one)]
            found = staticmethod(attrgetter(*names) if names else _nothing)
            setattr(cls, name, found)
        return found.__func__

    def _nothing(_):
        return ()
