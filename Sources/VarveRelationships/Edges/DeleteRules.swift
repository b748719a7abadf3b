/// What happens when an end of an edge goes: a combination of these.
///
/// An edge has a direction, and its rules act in both. They are those of YapDatabase's relationships, by the same bits.
///
/// | One end goes | The other end |
/// |---|---|
/// | source | `.deleteDestinationIfSourceDeleted`, `.deleteDestinationIfAllSourcesDeleted`, `.notifyIfSourceDeleted` |
/// | destination | `.deleteSourceIfDestinationDeleted`, `.deleteSourceIfAllDestinationsDeleted`, `.notifyIfDestinationDeleted` |
///
/// Without rules the edge goes, and nothing else. Two rules that delete the same end on the same occasion contradict each
/// other: one of them would never decide, so an edge with both is refused.
public struct DeleteRules: OptionSet, Hashable, Sendable, Codable {
  /// The bits. On disk: never change.
  public let rawValue: UInt8
  /// Rules of bits.
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// The destination receives `edgeRemoved` when the source goes.
  public static let notifyIfSourceDeleted = DeleteRules(rawValue: 1)
  /// The source receives `edgeRemoved` when the destination goes.
  public static let notifyIfDestinationDeleted = DeleteRules(rawValue: 2)
  /// The source goes with the destination.
  public static let deleteSourceIfDestinationDeleted = DeleteRules(rawValue: 4)
  /// The destination, a row or a file, goes with the source.
  public static let deleteDestinationIfSourceDeleted = DeleteRules(rawValue: 8)
  /// The source goes with a destination that was the last one it had an edge to.
  public static let deleteSourceIfAllDestinationsDeleted = DeleteRules(rawValue: 16)
  /// The destination, a row or a file, goes with a source that was the last one with an edge to it.
  public static let deleteDestinationIfAllSourcesDeleted = DeleteRules(rawValue: 32)

  /// Those that there are.
  static let all = DeleteRules(rawValue: 63)

  /// Why an edge can't have these rules; nil: it can.
  func refusal(toFile: Bool) -> String? {
    if !Self.all.isSuperset(of: self) {
      return "has rules of bits \(rawValue); \(Self.all.rawValue) has all that there are"
    }
    if isSuperset(of: [.deleteSourceIfDestinationDeleted, .deleteSourceIfAllDestinationsDeleted]) {
      return "is to delete its source if its destination is deleted, and also only if all destinations are: choose one"
    }
    if isSuperset(of: [.deleteDestinationIfSourceDeleted, .deleteDestinationIfAllSourcesDeleted]) {
      return "is to delete its destination if its source is deleted, and also only if all sources are: choose one"
    }
    let ofRows: DeleteRules = [
      .notifyIfSourceDeleted, .notifyIfDestinationDeleted, .deleteSourceIfDestinationDeleted,
      .deleteSourceIfAllDestinationsDeleted,
    ]
    if toFile, !isDisjoint(with: ofRows) {
      return "leads to a file, which can't be notified, and whose removal by others is not noticed; "
        + "only rules that delete the destination have a meaning for it"
    }
    return nil
  }
}
