"""placeholder"""


class HiveTable: ...


def import_to_table(*a): ...
