/// The bounds of a database's content, which formats depend on, and of resources.
///
/// The ranges of options that are not stored in files are in `EngineOptions.validate`. A bound of one part of the
/// engine is in that part, with its reason.
package enum Limits {
  /// The maximum size of a key, whose length fits in 16 bits.
  package static let keySizeMaximum = 65_535
  /// The maximum size of one value, and of one batch. Larger ones belong in files.
  package static let valueSizeMaximum = 1 << 30
  package static let batchSizeMaximum = 1 << 30
  /// The size above which a value or a batch is large: its memtable has the only copy that the engine makes of it.
  ///
  /// Below, one copy more costs less than the system calls that it spares.
  static let largeSize = 1 << 20
  /// The maximum number of families at one time. Their ids fit in 32 bits.
  static let familyCountMaximum = 10_000
  static let familyNameSizeMaximum = 255
  /// The bytes that a memtable can hold, as an option of the engine or of a family. The MANIFEST stores those of
  /// families: never raise the lower bound, and never lower the upper one.
  static let memtableSizes = 64 << 10...1 << 30
  /// The number of levels of the tree: 0 to 6.
  static let levelCount = 7
  /// The sizes of log segments: from small, for programs that write little, to large, so that switches are rare.
  static let logSegmentSizeMinimum = 256 << 10
  static let logSegmentSizeDefaultMaximum = 64 << 20
  /// The maximum size of a log segment. A batch of the maximum size gets its own segment; a larger file was not written
  /// by the engine.
  static let logSegmentSizeMaximum = batchSizeMaximum + (1 << 20)
  /// The maximum number of the engine's threads for the calls of `Engine.async`.
  ///
  /// They mostly wait for disks, and as many commits can share one sync.
  static let callThreadCountMaximum = 16
}
