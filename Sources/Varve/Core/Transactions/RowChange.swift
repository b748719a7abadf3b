/// What happened to a row.
public enum RowChange: UInt8, Hashable, Sendable {
  /// It was set, and had not been there.
  case inserted
  /// It was set, and had been there.
  case updated
  /// Its object was replaced; its metadata stayed.
  case replacedObject
  /// Its metadata was replaced; its object stayed.
  case replacedMetadata
  /// Its object was touched.
  case touchedObject
  /// Its metadata was touched.
  case touchedMetadata
  /// Both were touched.
  case touchedRow
  /// It was removed.
  case removed

  /// Whether the object may be another.
  var concernsObject: Bool { self != .replacedMetadata && self != .touchedMetadata && self != .removed }
  /// Whether the metadata may be another.
  var concernsMetadata: Bool { self != .replacedObject && self != .touchedObject && self != .removed }
}
