/// An extension that the database registers itself, under a reserved name.
protocol ReservedExtension: DatabaseExtension {}
