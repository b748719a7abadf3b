/// The bounds of everything that grows with changes, each with its arithmetic.
enum ChangeLimits {
  /// How many change sets a subscription keeps in memory unless it says otherwise. At some 200 bytes each and as much
  /// again a row, commits of single rows take 100 KB.
  static let bufferedEvents = 256
  /// How many rows the change sets of a subscription name together. A row is about 100 bytes in memory: 6.5 MB.
  static let bufferedRows = 1 << 16
  /// How many change sets a connection holds, and how many bytes they take together (`ChangeSet.byteCount`). What comes
  /// beyond is read from the feed.
  static let heldChangeSets = 256
  static let heldBytes = 4 << 20
  /// How many commits are read from the feed at once, and how many rows they name together. The last commit is read
  /// whole, however large it is.
  static let pageCommits = 64
  static let pageRows = 1 << 14
  /// How many rows an entry of the feed names at most. At 20 bytes each that is 200 KB.
  static let partRows = 10_000
  /// How many bytes an entry of the feed has at most, but for its label and its custom object: keys may be long.
  static let partSize = 1 << 20
  /// The feed is trimmed a segment at a time, the oldest first: so many take the whole size, and so many the whole
  /// time.
  static let segmentsBySize = 16
  static let segmentsByAge = 24
  /// How many closed segments there are at most: those by size and by age, and room for clocks that are set.
  static let segmentsMaximum = 64
  /// How many keys an observation of a collection collects for a consumer that is slower than commits. Beyond, it
  /// says that all should be read again, which costs less then. At some 60 bytes a key: 250 KB.
  static let observedKeys = 4_096
  /// How many bytes of rows a transaction notes that it replaces, for observers that compare them. A subscription keeps 256
  /// change sets at most: 64 MB, if all are as large.
  static let replacedBytes = 256 << 10
}
