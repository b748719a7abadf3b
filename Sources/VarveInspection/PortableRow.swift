internal import Varve

/// A row as it goes from one database to another: nothing in it is a number that only one catalog knows.
///
/// Its row id stays behind: that is its database's own, and where the row arrives it gets another.
public struct PortableRow: Sendable, Hashable {
  /// The key, encoded.
  public var key: [UInt8]
  /// The object.
  public var object: PortableValue
  /// The metadata; nil where the row has none.
  public var metadata: PortableValue?

  /// A row.
  public init(key: [UInt8], object: PortableValue, metadata: PortableValue? = nil) {
    self.key = key
    self.object = object
    self.metadata = metadata
  }
}

/// An object or metadata, as its coder wrote it, with the shapes and the version spelt out.
public struct PortableValue: Sendable, Hashable {
  /// The raw value of the version of the format that wrote it; nil where there is no format.
  public var version: String?
  /// The names of the fields of the record that it is; empty where it is none, or no value of the binary coder.
  public var shape: [String]
  /// The names of the fields of the records inside of it: `bytes` numbers them from 1, in the order in which
  /// they come first.
  public var shapes: [[String]]
  /// What the coder wrote; the numbers of shapes are those of `shapes`.
  public var bytes: [UInt8]

  /// A value. Those of other coders than the binary one have no shapes.
  public init(version: String? = nil, shape: [String] = [], shapes: [[String]] = [], bytes: [UInt8]) {
    self.version = version
    self.shape = shape
    self.shapes = shapes
    self.bytes = bytes
  }
}

/// What a collection is made with.
public struct PortableCollection: Sendable, Hashable {
  /// The name of the type of its keys: see `KeyType`.
  public var keyType: String
  /// Its coder.
  public var coder: CoderName
  /// Whether its rows lie in families of its own.
  public var isOwn: Bool

  /// A collection.
  public init(keyType: String, coder: CoderName, isOwn: Bool = false) {
    self.keyType = keyType
    self.coder = coder
    self.isOwn = isOwn
  }
}
