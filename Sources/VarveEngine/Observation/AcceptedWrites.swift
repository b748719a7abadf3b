/// The writes that an engine accepts.
public enum AcceptedWrites: String, Sendable, Hashable {
  /// All writes.
  case all
  /// Writes that free space, because the disk is full: drops of families, and batches with a delete and little else.
  ///
  /// The puts of such a batch take at most 4 KiB, and 256 bytes and twice the key for each delete; those that an
  /// object database adds to a program's changes don't count. All other writes throw `.noSpace`. The state ends by
  /// itself when there is space again.
  case deletesOnly
  /// No writes: the engine was opened read-only, or refuses commits until `resume` (``Engine/backgroundError`` has the
  /// cause).
  case none
}
