/// An ordered map of bytes to bytes that an extension keeps: a family of the storage.
public struct PartDefinition: Sendable, Hashable {
  /// What the values of a part are.
  public enum Form: Sendable, Hashable {
    /// Bytes.
    case values
    /// Numbers of 64 bits that are added up, or whose largest is kept, without a read.
    case counters(CounterRule)
    /// Bytes, of keys that are put once and removed once. A removal is cheaper than that of other forms, and of a put
    /// and a removal in one transaction nothing is committed. See `Part.put`.
    case writeOnce
    /// Bytes that are written and only read later: the cheapest to write. A transaction that has written to the part
    /// can't read it, and gets `.invalidArgument`. Of several entries of a key the last counts.
    case appendOnly
    /// Bytes that belong to the transaction alone: never committed, undone by savepoints, empty at its beginning. They
    /// count for the limit of a transaction, and for no conflict.
    case scratch
  }

  /// Its name. Not empty.
  public var name: String
  /// Its version: another one rebuilds this part and no other. Default `"1"`.
  public var version = "1"
  /// What its values are. Another form rebuilds it.
  public var form = Form.values
  /// Whether it is empty whenever the database is opened: then it is built at each registration. Default false.
  public var isVolatile = false
  /// Whether `Database.commitAside` may read and write it, beside the writer. Default false.
  ///
  /// What a transaction reads or writes of it is checked at the commit of the transaction, which throws `.conflict` and
  /// commits nothing where another has changed it since the transaction began. Hooks and builds write to it as to others.
  public var isIndependent = false
  /// Whether its content is made of rows. Default true. False: it is what the program has written by itself, as edges that it
  /// has added and tasks are: no build gives it a row, and none empties it, whatever was missed meanwhile. It goes where
  /// the extension is unregistered, and where its own version or form is another.
  public var isDerived = true
  /// Of a write-once part: whether its extension never puts a key that it has put before, also after its removal, as where keys
  /// have numbers that are given once. Then puts look for nothing, and conflict with nothing. Default false.
  ///
  /// True and a key is put twice: after its removal the first value may come back. Builds with assertions look all the same.
  public var hasUniqueKeys = false
  /// About how many bytes of changes are collected in memory before they are written to a table: 64 KiB to 1 GiB. Nil, the
  /// default: as the storage does otherwise. Another size counts from the next registration on, and rebuilds nothing.
  /// Storages without tables ignore it.
  public var memtableSize: Int?

  /// What is possible for `memtableSize`.
  public static let memtableSizes = 64 << 10...1 << 30

  /// A part.
  public init(_ name: String, _ form: Form = .values) {
    self.name = name
    self.form = form
  }
}

/// Some of the parts of an extension, by their index in its configuration.
public struct PartSet: OptionSet, Hashable, Sendable {
  /// A bit a part.
  public let rawValue: UInt64
  /// Parts of bits.
  public init(rawValue: UInt64) { self.rawValue = rawValue }
  /// The part with an index, from 0 to 63.
  public init(part: Int) { rawValue = 1 << UInt64(part) }

  /// All.
  public static let all = PartSet(rawValue: .max)

  /// The first `count`.
  init(count: Int) { rawValue = count >= 64 ? .max : (1 << UInt64(count)) - 1 }
}

extension PartDefinition {
  /// How the storage keeps it.
  var storageOptions: StorageFamilyOptions {
    switch form {
    case .counters(let rule):
      StorageFamilyOptions(counter: rule, isVolatile: isVolatile, memtableSize: memtableSize)
    case .values, .writeOnce, .appendOnly: StorageFamilyOptions(isVolatile: isVolatile, memtableSize: memtableSize)
    // Nothing of it is ever committed.
    case .scratch: StorageFamilyOptions(isVolatile: true)
    }
  }
}

/// The form of a part as one byte, as records have it. On disk: never change.
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

  /// How its counters take a number; nil where it has none.
  var rule: CounterRule? {
    switch self {
    case .sums: .sum
    case .maxima: .maximum
    case .values, .writeOnce, .appendOnly, .scratch: nil
    }
  }
}
