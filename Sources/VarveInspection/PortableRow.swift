public import Varve

/// A row in transfer from one database to another.
///
/// It contains no number that only one catalog defines.
///
/// The row id is not transferred, because each database assigns its own.
public struct PortableRow: Sendable, Hashable {
  /// The key, encoded.
  public var key: [UInt8]
  /// The object.
  public var object: PortableValue
  /// The metadata, or `nil` if the row has none.
  public var metadata: PortableValue?

  /// Creates a row.
  public init(key: [UInt8], object: PortableValue, metadata: PortableValue? = nil) {
    self.key = key
    self.object = object
    self.metadata = metadata
  }
}

/// An object or metadata as its coder wrote it, with the shapes and the version spelled out.
public struct PortableValue: Sendable, Hashable {
  /// The raw value of the version of the format that wrote it, or `nil` if there is no format.
  public var version: String?
  /// The field names of the record. Empty if the value is not a record, or was not written by the binary coder.
  public var shape: [String]
  /// The field names of the records inside the value. `bytes` numbers them from 1, in order of first occurrence.
  public var shapes: [[String]]
  /// The bytes that the coder wrote, in which the numbers of shapes are those of `shapes`.
  public var bytes: [UInt8]

  /// Creates a value. Values of coders other than the binary one have no shapes.
  public init(version: String? = nil, shape: [String] = [], shapes: [[String]] = [], bytes: [UInt8]) {
    self.version = version
    self.shape = shape
    self.shapes = shapes
    self.bytes = bytes
  }
}

/// The parameters of a collection.
public struct PortableCollection: Sendable, Hashable {
  /// The name of the type of its keys: see `KeyType`.
  public var keyType: String
  /// The coder.
  public var coder: CoderName
  /// Where its rows are. A collection that exists keeps its storage.
  public var storage: CollectionStorage

  /// Creates the parameters of a collection.
  public init(keyType: String, coder: CoderName, storage: CollectionStorage = .shared) {
    self.keyType = keyType
    self.coder = coder
    self.storage = storage
  }
}
