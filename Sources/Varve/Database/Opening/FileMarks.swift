internal import Foundation

/// What the options say of the files of a database as attributes: the class of data protection, and that they are left out
/// of backups.
///
/// The directory is marked first: what is made in it later has its class of protection. Files that are there are marked one
/// by one. Where the platform has no such attribute nothing is done.
struct FileMarks {
  private let protection: FileProtection?
  private let isExcludedFromBackup: Bool

  init(_ options: DatabaseOptions) {
    protection = options.fileProtection
    isExcludedFromBackup = options.isExcludedFromBackup
  }

  /// Marks a directory and the files in it. Throws `.storage`, and `.notReadableNow` where a file is protected now.
  func set(at directory: String) throws {
    #if canImport(Darwin)
      guard protection != nil || isExcludedFromBackup else { return }
      do {
        try mark(directory)
        // Temporary files may go meanwhile: those have what the directory has.
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
