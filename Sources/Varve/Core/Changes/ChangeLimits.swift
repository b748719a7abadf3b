/// The bounds of everything that grows with changes, with the calculations that they are based on.
enum ChangeLimits {
  /// The default number of change sets that a subscription keeps in memory. At some 200 bytes for each and as much
  /// again for each row, commits of single rows take 100 KB.
  static let bufferedEvents = 256
  /// The number of rows that the change sets of a subscription contain together. A row takes about 100 bytes in memory:
  /// 6.5 MB.
  static let bufferedRows = 1 << 16
  /// The number of change sets that a connection holds, and the number of bytes that they take together
  /// (`ChangeSet.byteCount`). Further ones are read from the feed.
  static let heldChangeSets = 256
  static let heldBytes = 4 << 20
  /// The number of commits that are read from the feed at once, and the number of rows that they contain together. The
  /// last commit is read completely, however large it is.
  static let pageCommits = 64
  static let pageRows = 1 << 14
  /// The maximum number of rows in an entry of the feed. At 20 bytes each that is 200 KB.
  static let partRows = 10_000
  /// The maximum number of bytes of an entry of the feed, excluding its label and its custom object. Keys may be long.
  static let partSize = 1 << 20
  /// The feed is trimmed by whole segments, the oldest first. These are the numbers of segments that make up the whole
  /// size and the whole age.
  static let segmentsBySize = 16
  static let segmentsByAge = 24
  /// The maximum number of closed segments: those by size and by age, and some for clocks that are changed.
  static let segmentsMaximum = 64
  /// The number of keys that an observation of a collection collects for a consumer that is slower than commits. Beyond
  /// that, the observation requests a reload, which then costs less. At some 60 bytes for a key: 250 KB.
  static let observedKeys = 4_096
  /// The number of bytes of replaced rows that a transaction notes for observers that compare them. A subscription
  /// keeps at most 256 change sets: 64 MB, if all are as large.
  static let replacedBytes = 256 << 10
}
