/// The yes-or-no options of a column family, as they lie in the MANIFEST and in tables.
///
/// # Format
/// The options of a family are bytes that the MANIFEST keeps as they are:
///
/// ```
/// codec (1)  [ size of the operator's name (1)  name  [ flags (1)  [ size of memtables (8) ]  what later versions add ] ]
/// ```
///
/// What is at the end and has its default is left out, so a family without flags has the bytes that versions
/// without flags wrote. Codec and operator are read by `FamilyOptions`, two floors above; the flags here, because
/// the MANIFEST itself acts by them.
///
/// On disk: never change a bit. A bit that must not be ignored comes with a required feature of the MANIFEST
/// (`requiredFeatures`), which versions that don't know it refuse.
struct FamilyFlags: OptionSet, Sendable {
  let rawValue: UInt8

  /// Emptied whenever the database is opened: neither in the log nor, with its tables, in the MANIFEST.
  static let volatile = FamilyFlags(rawValue: 1)

  /// The feature of a MANIFEST that has, or had, a volatile family: a version that took it for an ordinary one
  /// would find rows at its open that the program relies upon to be gone.
  static let volatileFeature: UInt64 = 1

  init(rawValue: UInt8) { self.rawValue = rawValue }

  /// The flags among a family's options; none where the options end before them.
  init(options: [UInt8]) {
    guard options.count > 1, options.count > 2 + Int(options[1]) else {
      self.init()
      return
    }
    self.init(rawValue: options[2 + Int(options[1])])
  }

  /// What a version has to know to deal with a family that has these flags.
  var requiredFeatures: UInt64 { contains(.volatile) ? Self.volatileFeature : 0 }
}
