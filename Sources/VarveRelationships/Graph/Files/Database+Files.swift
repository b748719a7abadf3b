internal import Foundation
public import Varve

extension Database {
  /// Copies the database, as of one commit, and the files to which edges of a domain lead, to a path at which no file
  /// exists.
  ///
  /// The files are in the folder `files` of that path, by their roots and relative paths. They are links to the same
  /// files on the same volume, and copies otherwise; missing files are left out. No file is removed meanwhile. Throws
  /// as `backup(to:)`, and `.storage` if a file can be neither linked nor copied, in which case nothing remains at the
  /// path.
  ///
  /// Complexity: O(n) in the database and all edges.
  @_disfavoredOverload
  public func backup(to path: String, files handle: ExtensionHandle<Relationships>) throws {
    let shared = try read { tx in try tx[handle].context.shared }
    shared.locations.hold()
    defer {
      shared.locations.release()
      // Files that were released meanwhile are removed now.
      shared.removeFiles()
    }
    try backup(to: path)
    do {
      try FileLinks(path, handle, shared.locations).run()
    } catch {
      try? FileManager.default.removeItem(atPath: path)
      throw error
    }
  }

  /// Copies the database and its files without blocking the task's thread: see the synchronous form.
  public func backup(to path: String, files handle: ExtensionHandle<Relationships>) async throws {
    let database = self
    try await Task.detached { try database.copyHere(to: path, handle) }.value
  }

  private func copyHere(to path: String, _ handle: ExtensionHandle<Relationships>) throws {
    try backup(to: path, files: handle)
  }
}

/// Links the files of a copied database into it.
private struct FileLinks {
  private let path: String
  private let handle: ExtensionHandle<Relationships>
  private let locations: FileLocations

  init(_ path: String, _ handle: ExtensionHandle<Relationships>, _ locations: FileLocations) {
    (self.path, self.handle, self.locations) = (path, handle, locations)
  }

  func run() throws {
    var options = DatabaseOptions()
    options.isReadOnly = true
    // This uses the edges of the copy, because later edges of the original may lead to files that are not part of it.
    let copy = try Database.open(at: path, options: options) { handle }
    defer { try? copy.close() }
    try copy.read { tx in
      var last: EdgeEnd?
      for family in try tx[handle].families.both {
        var cursor = try family.to.cursor(StorageRange(prefix: [EdgeFormat.file]), keysOnly: true)
        while let (bytes, _) = try cursor.next() {
          guard let (root, file) = EdgeFormat.fileLocation(try EdgeKey(bytes, bySource: false).first) else { continue }
          if last == .file(root: root, path: file) { continue }
          last = .file(root: root, path: file)
          try link(root, file)
        }
      }
    }
  }

  private func link(_ root: String, _ file: String) throws {
    guard case .at(let source, _) = locations.location(root, file), try SystemFile.identity(source) != nil else {
      return
    }
    let target = "\(path)/files/\(root.isEmpty ? "anywhere" : root)/\(file)"
    let directory = (target as NSString).deletingLastPathComponent
    do {
      try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
      if FileManager.default.fileExists(atPath: target) { return }
      do {
        try FileManager.default.linkItem(atPath: source, toPath: target)
      } catch {
        try FileManager.default.copyItem(atPath: source, toPath: target)
      }
    } catch {
      throw DatabaseError(
        .storage, "file \"\(file)\" of root \"\(root)\" can't be linked or copied to \(target)", cause: error)
    }
  }
}
