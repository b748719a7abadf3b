internal import FutexLocks

/// The numbers of coders, and which of them writes a collection.
extension Catalog {
  /// Notes the coders that a definition names, also for collections that were read without them. Throws
  /// `.invalidDefinition`.
  func addCoders(of definition: CollectionDefinition, _ state: inout CatalogState) throws {
    try state.add(codersOf: definition)
    for (name, info) in state.collections where info.lacksCoder {
      state.collections[name] = try makeInfo(name, info.record, info.definition, info.versions.names, state.coders)
    }
  }

  /// The number of a coder, given to it now where it has none. Throws `.invalidDefinition` where all are given.
  func number(ofCoder kind: CoderKind, _ state: inout CatalogState) throws -> UInt8 {
    if let number = kind.number { return number }
    guard case .own(let type) = kind, !kind.isUnnamed else {
      throw DatabaseError(.unknownCoder, "the program has not named the coder of the collection")
    }
    try state.coders.add(kind)
    return try number(ofCoderNamed: try CoderTable.checkedName(of: type), &state)
  }

  /// The same by its name, without its type.
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

  /// The same, for rows that come as bytes.
  package func number(ofCoderNamed name: String) throws -> UInt8 {
    try state.withLock { state in try number(ofCoderNamed: name, &state) }
  }

  /// The name of a coder by its number.
  package func coderName(_ number: UInt8) -> String { state.withLock { $0.coders.name(number) } }

  /// The record of a collection whose definition names this coder. Where another one writes, this one takes over, in a commit
  /// of its own: rows that were written before say what wrote them, or it is the first one's. A database that is only read
  /// stays as it is.
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
