internal import FutexLocks

/// The numbers of coders, and the coder that writes a collection.
extension Catalog {
  /// Adds the coders that a definition names to the table, and updates collections that were read without them. Throws
  /// `.invalidDefinition`.
  func addCoders(of definition: RowDefinition, _ state: inout CatalogState) throws {
    try state.add(codersOf: definition)
    for (name, info) in state.collections where info.lacksCoder {
      state.collections[name] = try makeInfo(name, info.record, info.definition, info.versions.names, state.coders)
    }
  }

  /// Returns the number of a coder, and assigns one if it has none. Throws `.invalidDefinition` if all numbers are
  /// assigned.
  func number(ofCoder kind: CoderKind, _ state: inout CatalogState) throws -> UInt8 {
    if let number = kind.number { return number }
    guard case .own(let type) = kind, !kind.isUnnamed else {
      throw DatabaseError(.unknownCoder, "the program has not named the coder of the collection")
    }
    try state.coders.add(kind)
    return try number(ofCoderNamed: try CoderTable.checkedName(of: type), &state)
  }

  /// Returns the number of a coder by its name, without its type, and assigns one if it has none.
  func number(ofCoderNamed name: String, _ state: inout CatalogState) throws -> UInt8 {
    if let number = CoderKind.allCases.first(where: { $0.description == name })?.number { return number }
    if let number = state.coders.number(of: name) { return number }
    let name = Name.composed(name)
    guard !name.isEmpty, name.utf8.count <= CoderTable.nameSizeMaximum else {
      throw DatabaseError(.invalidArgument, "\"\(name)\" is not possible as the name of a coder")
    }
    let used = state.collections.values.flatMap { [$0.record.coder, $0.record.writer] }
    guard let number = state.coders.nextNumber(beside: used) else {
      throw DatabaseError(
        .invalidDefinition,
        "the database has had \(UInt8.max - CoderTable.firstNumber + 1) coders of programs, and takes no other")
    }
    if backend.isReadOnly {
      throw DatabaseError(
        .readOnly, "the catalog has no number for the coder \"\(name)\", and the database is read-only")
    }
    var batch = StorageBatch()
    batch.put(CatalogKey.coder(number), Array(name.utf8), in: families.catalog)
    noteChange(&batch, &state)
    _ = try backend.commit(batch, check: nil, durability: .process)
    state.coders.set(name, for: number)
    return number
  }

  /// Returns the number of a coder by its name, for rows that are given as bytes.
  package func number(ofCoderNamed name: String) throws -> UInt8 {
    try state.withLock { state in try number(ofCoderNamed: name, &state) }
  }

  /// Returns the name of the coder with a number.
  package func coderName(_ number: UInt8) -> String { state.withLock { $0.coders.name(number) } }

  /// Returns the record of a collection whose definition names a coder.
  ///
  /// If another coder writes the collection so far, this one takes over, in a commit of its own. Rows that were written
  /// before name their coder, or were written by the collection's first coder. The record of a read-only database stays
  /// as it is.
  func record(
    _ info: CollectionInfo, writtenBy kind: CoderKind, _ state: inout CatalogState
  ) throws -> CollectionRecord {
    if info.coder == kind || backend.isReadOnly { return info.record }
    var record = info.record
    record.writer = try number(ofCoder: kind, &state)
    if record == info.record { return record }
    var batch = StorageBatch()
    batch.put(CatalogKey.collection(info.name), record.bytes, in: families.catalog)
    noteChange(&batch, &state)
    _ = try backend.commit(batch, check: nil, durability: .process)
    return record
  }
}
