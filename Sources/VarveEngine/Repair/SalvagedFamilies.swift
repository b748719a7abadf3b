/// Whose entries are found: a column family by its number, or a table that does not say whose it is.
enum SalvageOwner: Hashable, Sendable {
  case family(FamilyID)
  /// Of a build that did not write it into the table, and of a MANIFEST that is lost.
  case table(FileNumber)
}

/// What column families of a damaged database are called.
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
    // The later of two families with one name has it: names are given again after a drop only.
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

  /// The options as their coding; the defaults where they are not known.
  func encodedOptions(_ owner: SalvageOwner) -> [UInt8] {
    guard case .family(let id) = owner, let found = options[id] else { return FamilyOptions().encoded }
    return found
  }

  func options(_ owner: SalvageOwner) -> FamilyOptions {
    do throws(EngineError) {
      return try FamilyOptions(decoding: encodedOptions(owner), family: name(owner))
    } catch { return FamilyOptions() }
  }

  /// The same for a new database, without a merge operator that `known` does not have.
  func options(_ owner: SalvageOwner, known: EngineOptions) -> FamilyOptions {
    var found = options(owner)
    if known.mergeFunction(named: found.mergeOperator) == nil { found.mergeOperator = nil }
    return found
  }

  /// Families that the MANIFEST knows, ascending, also those without an entry.
  var known: [FamilyID] { names.keys.sorted() }
}

extension DamagedTableReader {
  var owner: SalvageOwner { family.map { .family($0) } ?? .table(number) }
}
