internal import Varve

/// What a closure of a view reads of a row.
///
/// A change of anything else does not call the closure. A row that is inserted or touched is always passed to it.
public struct RowInputs: OptionSet, Hashable, Sendable {
  /// The raw bits.
  public let rawValue: UInt8
  /// Creates a set from raw bits.
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// The row's object.
  public static let object = RowInputs(rawValue: 1)
  /// The row's metadata.
  public static let metadata = RowInputs(rawValue: 2)
  /// The row's key and number, which never change.
  public static let key = RowInputs(rawValue: 4)

  /// The events that an extension receives whose closure reads this.
  var events: RowEvents {
    var events: RowEvents = [.inserts, .removals, .touches]
    if contains(.object) { events.insert(.updates) }
    if contains(.metadata) { events.formUnion([.updates, .metadata]) }
    return events
  }

  /// Returns whether an event may have changed the result of the closure, or asks for it again.
  func concerns(_ event: RowChange.Event) -> Bool {
    switch event {
    case .inserted, .removed, .objectTouched, .metadataTouched, .rowTouched: true
    case .updated: contains(.object) || contains(.metadata)
    case .objectReplaced: contains(.object)
    case .metadataReplaced: contains(.metadata)
    }
  }
}
