/// The definition of a part: an ordered map from bytes to bytes that an extension keeps, stored as a family of the
/// storage.
public struct PartDefinition: Sendable, Hashable {
  /// The form of a part: what its values are.
  public enum Form: Sendable, Hashable {
    /// The values are bytes.
    case values
    /// The values are 64-bit numbers that are added up, or whose maximum is kept, without a read.
    case counters(CounterRule)
    /// The values are bytes, and each key is put once and removed once.
    ///
    /// A removal is cheaper than in other forms, and if a key is put and removed in one transaction, nothing is
    /// committed. See `Part.put`.
    case writeOnce
    /// The values are bytes that are written blindly and read only later: the cheapest form to write.
    ///
    /// A transaction that has written to the part can't read it, and gets `.invalidArgument`. Of several entries of a
    /// key the last one counts.
    case appendOnly
    /// The values are bytes that belong to the transaction alone: they are never committed, are undone by savepoints,
    /// and the part is empty when a transaction begins.
    ///
    /// They count for the size limit of a transaction, but cause no conflict.
    case scratch
  }

  /// The name of the part, which must not be empty.
  public var name: String
  /// The version of the part: another version rebuilds this part and no other. Default `"1"`.
  public var version = "1"
  /// The form of the values. Another form rebuilds the part.
  public var form = Form.values
  /// A Boolean value that indicates whether the part is empty whenever the database is opened, and is then built at
  /// each registration. Default false.
  public var isVolatile = false
  /// A Boolean value that indicates whether `Database.commitIndependently` may read and write the part without the
  /// writer. Default false.
  ///
  /// What a transaction reads or writes of the part is checked at the transaction's commit, which throws `.conflict`
  /// and commits nothing if another commit has changed it since the transaction began. Hooks and builds write to the
  /// part as to others.
  public var isIndependent = false
  /// A Boolean value that indicates whether the part keeps counts of its entries, so that `Part.count`,
  /// `Part.offset(of:in:)`, `Part.entry(at:in:)` and a cursor from an offset take logarithmic time. Default false.
  ///
  /// It is for parts of `.values`, and not for independent ones. Entries are added by `Part.insert`, replaced by
  /// `Part.put` and removed by `Part.remove` or `Part.deleteRange`. Turning it on or off rebuilds no entry: only the
  /// counts are made or removed, in the commit of the registration or of `WriteTransaction.replaceDefinition`.
  public var isCounted = false
  /// A Boolean value that indicates whether the part's content is derived from rows. Default true.
  ///
  /// False is for data that the program itself has written, for example edges or tasks that it has added: no build
  /// passes rows to the part, and none empties it, whatever was missed in the meantime. The part is removed when the
  /// extension is unregistered, or when the part's own version or form changes.
  public var isDerived = true
  /// A Boolean value that indicates whether the extension of a write-once part never puts a key again, even after its
  /// removal, for example because keys contain numbers that are given once.
  ///
  /// Puts then look up nothing, and conflict with nothing. Default false.
  ///
  /// If it is true and a key is put twice, the first value may reappear after the key's removal. Builds with assertions
  /// look up keys all the same.
  @_spi(Extensions) public var hasUniqueKeys = false
  /// The approximate number of bytes of changes that are collected in memory before they are written to a table: 64 KiB
  /// to 1 GiB, or `nil`, the default, for the storage's usual size.
  ///
  /// Another size applies from the next registration on, and rebuilds nothing. Storages without tables ignore it.
  public var memtableSize: Int?

  /// The valid range of `memtableSize`.
  static let memtableSizes = 64 << 10...1 << 30

  /// Creates the definition of a part.
  public init(_ name: String, _ form: Form = .values) {
    self.name = name
    self.form = form
  }
}

/// A set of parts of an extension, by their index in its configuration.
public struct PartSet: OptionSet, Hashable, Sendable {
  /// The raw bits: one for each part.
  public let rawValue: UInt64
  /// Creates a set from raw bits.
  public init(rawValue: UInt64) { self.rawValue = rawValue }
  /// Creates a set with the part at an index from 0 to 63.
  public init(part: Int) { rawValue = 1 << UInt64(part) }

  /// All parts.
  public static let all = PartSet(rawValue: .max)

  /// Creates a set with the first `count` parts.
  init(count: Int) { rawValue = count >= 64 ? .max : (1 << UInt64(count)) - 1 }
}

extension PartDefinition {
  /// The options with which the storage keeps the part.
  var storageOptions: StorageFamilyOptions {
    switch form {
    case .counters(let rule):
      StorageFamilyOptions(counter: rule, isVolatile: isVolatile, memtableSize: memtableSize)
    case .values, .writeOnce, .appendOnly: StorageFamilyOptions(isVolatile: isVolatile, memtableSize: memtableSize)
    // No entry of a scratch part is ever committed.
    case .scratch: StorageFamilyOptions(isVolatile: true)
    }
  }
}

/// The form of a part as one byte in records. It is on disk and must never change.
enum PartForm: UInt8 {
  case values = 0
  case sums = 1
  case maxima = 2
  case writeOnce = 3
  case appendOnly = 4
  case scratch = 5

  init(_ form: PartDefinition.Form) {
    self =
      switch form {
      case .values: .values
      case .counters(.sum): .sums
      case .counters(.maximum): .maxima
      case .writeOnce: .writeOnce
      case .appendOnly: .appendOnly
      case .scratch: .scratch
      }
  }

  /// The rule of the part's counters, or `nil` if it has none.
  var rule: CounterRule? {
    switch self {
    case .sums: .sum
    case .maxima: .maximum
    case .values, .writeOnce, .appendOnly, .scratch: nil
    }
  }
}
