internal import Foundation

/// The attributes of a database's files that the options specify: the data protection class, and the exclusion from
/// backups.
///
/// The directory is marked first, because files that are created in it later inherit its protection class. Existing
/// files are marked one by one. On platforms without these attributes, nothing is done.
struct FileMarks {
  private let protection: FileProtection?
  private let isExcludedFromBackup: Bool

  init(_ options: DatabaseOptions) {
    protection = options.fileProtection
    isExcludedFromBackup = options.isExcludedFromBackup
  }

  /// Marks a directory and its files. Throws `.storage`, and `.notReadableNow` if a file is protected at present.
  func set(at directory: String) throws {
    #if canImport(Darwin)
      guard protection != nil || isExcludedFromBackup else { return }
      do {
        try mark(directory)
        // Temporary files may disappear meanwhile; they have inherited the directory's attributes.
        for name in try FileManager.default.contentsOfDirectory(atPath: directory) {
          do { try mark(directory + "/" + name) } catch CocoaError.fileNoSuchFile {}
        }
      } catch {
        throw DatabaseError(Self.code(error), "the attributes of the files in \(directory) can't be set", cause: error)
      }
    #endif
  }

  #if canImport(Darwin)
    private static func code(_ error: any Error) -> DatabaseError.Code {
      (error as? CocoaError)?.code == .fileReadNoPermission ? .notReadableNow : .storage
    }

    private func mark(_ path: String) throws {
      #if os(iOS) || os(tvOS) || os(watchOS) || os(visionOS)
        if let protection {
          try FileManager.default.setAttributes([.protectionKey: protection.type], ofItemAtPath: path)
        }
      #endif
      if isExcludedFromBackup {
        var url = URL(fileURLWithPath: path)
        var values = URLResourceValues()
        values.isExcludedFromBackup = true
        try url.setResourceValues(values)
      }
    }
  #endif
}

#if os(iOS) || os(tvOS) || os(watchOS) || os(visionOS)
  extension FileProtection {
    fileprivate var type: FileProtectionType {
      switch self {
      case .complete: .complete
      case .completeUnlessOpen: .completeUnlessOpen
      case .completeUntilFirstAuthentication: .completeUntilFirstUserAuthentication
      case .none: .none
      }
    }
  }
#endif
