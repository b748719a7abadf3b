/// The Boolean options of a column family, as the MANIFEST and tables store them.
///
/// # Format
/// The options of a family are bytes that the MANIFEST stores without interpreting them, except for the flags:
///
/// ```
/// codec (1)  [ size of the operator's name (1)  name
///   [ flags (1)  [ size of memtables (8) ]  what later versions add ] ]
/// ```
///
/// Trailing fields that have their default are omitted, so a family without flags has the same bytes as in versions
/// that had no flags. `FamilyOptions`, two layers above, reads the codec and the operator. The flags are read here,
/// because the MANIFEST itself depends on them.
///
/// The bits are stored on disk: never change one. A bit that must not be ignored requires a feature of the MANIFEST
/// (`requiredFeatures`), and versions that don't know the feature refuse to open it.
struct FamilyFlags: OptionSet, Sendable {
  let rawValue: UInt8

  /// The family is emptied whenever the database is opened: its writes are not in the log, and its tables are not in
  /// the MANIFEST.
  static let volatile = FamilyFlags(rawValue: 1)

  /// The feature of a MANIFEST that has, or had, a volatile family.
  ///
  /// A version that took the family for an ordinary one would find rows at open that the program expects to be gone.
  static let volatileFeature: UInt64 = 1

  init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Reads the flags from a family's encoded options. No flag is set if the options end before them.
  init(options: [UInt8]) {
    guard options.count > 1, options.count > 2 + Int(options[1]) else {
      self.init()
      return
    }
    self.init(rawValue: options[2 + Int(options[1])])
  }

  /// The features that a version must support to open a family that has these flags.
  var requiredFeatures: UInt64 { contains(.volatile) ? Self.volatileFeature : 0 }
}
