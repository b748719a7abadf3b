/// An ordered map of bytes to bytes that an extension keeps: a family of the storage.
public struct PartDefinition: Sendable, Hashable {
  /// What the values of a part are.
  public enum Form: Sendable, Hashable {
    /// Bytes.
    case values
    /// Numbers of 64 bits that are added up, without a read.
    case counters(CounterRule)
  }

  /// How a counter takes a number.
  public enum CounterRule: Sendable, Hashable {
    /// It is added.
    case sum
  }

  /// Its name. Not empty.
  public var name: String
  /// Its version: another one rebuilds this part and no other. Default `"1"`.
  public var version = "1"
  /// What its values are. Another form rebuilds it.
  public var form = Form.values
  /// Whether it is empty whenever the database is opened: then it is built at each registration. Default false.
  public var isVolatile = false

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
    case .values: StorageFamilyOptions(isVolatile: isVolatile)
    case .counters: StorageFamilyOptions(isCounter: true, isVolatile: isVolatile)
    }
  }
}
