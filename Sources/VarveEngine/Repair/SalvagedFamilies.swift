/// The owner of entries that were found: a column family by its number, or a table that does not name its family.
enum SalvageOwner: Hashable, Sendable {
  case family(FamilyID)
  /// A table of a build that did not store the family in it, in a database whose MANIFEST is lost.
  case table(FileNumber)
}

/// The names and options of the column families of a damaged database.
///
/// | known by | name |
/// |---|---|
/// | the MANIFEST | as there |
/// | a table that names its family | as there, unless a later family has the name: the earlier was dropped |
/// | its number alone | `recovered-NUMBER`, and `default` for number 0 |
/// | a table that names none | `recovered-table-NUMBER`, one for each: their keys may be of different families |
struct SalvagedFamilies {
  private var names: [FamilyID: String] = [:]
  private var options: [FamilyID: [UInt8]] = [:]

  init(_ evidence: ManifestEvidence, _ tables: [DamagedTableReader]) {
    for (id, family) in evidence.families {
      names[id] = family.name
      options[id] = family.options
    }
    if names[.default] == nil { names[.default] = "default" }
    // The later of two families with one name has it, because a name is assigned again only after a drop.
    var announced: [FamilyID: String] = [:]
    // The newest table of a family has its last options.
    for properties in tables.sorted(by: { $0.number < $1.number }).compactMap(\.properties) {
      if let id = properties.family, evidence.families[id] == nil, let found = properties.familyOptions {
        options[id] = found
      }
      guard let id = properties.family, let bytes = properties.familyName else { continue }
      if let name = String(validating: bytes, as: UTF8.self), !name.isEmpty { announced[id] = name }
    }
    for id in announced.keys.sorted(by: >) where names[id] == nil {
      if let name = announced[id], !names.values.contains(name) { names[id] = name }
    }
  }

  func name(_ owner: SalvageOwner) -> String {
    switch owner {
    case .family(let id): names[id] ?? "recovered-\(id)"
    case .table(let number): "recovered-table-\(number)"
    }
  }

  /// Returns a description for the report of each family whose name is lost.
  func doubts(_ owners: some Sequence<SalvageOwner>) -> [String] {
    owners.compactMap { owner in
      switch owner {
      case .family(let id) where names[id] == nil:
        "the name and the options of column family \(id) are lost: its entries are in \"\(name(owner))\""
      case .table(let number):
        "the column family of table \(number) is not known: its entries are in \"\(name(owner))\""
      case .family: nil
      }
    }.sorted()
  }

  /// Returns the encoded options, or the encoded defaults if the options are not known.
  func encodedOptions(_ owner: SalvageOwner) -> [UInt8] {
    guard case .family(let id) = owner, let found = options[id] else { return FamilyOptions().encoded }
    return found
  }

  func options(_ owner: SalvageOwner) -> FamilyOptions {
    do throws(EngineError) {
      return try FamilyOptions(decoding: encodedOptions(owner), family: name(owner))
    } catch { return FamilyOptions() }
  }

  /// Returns the options for a new database, without a merge operator that `known` does not have.
  func options(_ owner: SalvageOwner, known: EngineOptions) -> FamilyOptions {
    var found = options(owner)
    if known.mergeFunction(named: found.mergeOperator) == nil { found.mergeOperator = nil }
    return found
  }

  /// The families that the MANIFEST knows, ascending, including those without an entry.
  var known: [FamilyID] { names.keys.sorted() }
}

extension DamagedTableReader {
  var owner: SalvageOwner { family.map { .family($0) } ?? .table(number) }
}
