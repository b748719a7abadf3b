internal import Foundation
public import Varve

extension Database {
  /// Copies the database, as of one commit, and the files that the edges of a domain lead to, to a path where nothing is.
  ///
  /// The files lie in `files` of that path, by their roots and their paths from there. They are links to the same files where
  /// the volume is the same, and copies elsewhere; a file that is not there is left out. No file is removed meanwhile. Throws as
  /// `backup(to:)`, and `.storage` where a file can't be linked and can't be copied; then nothing is at the path.
  ///
  /// Complexity: O(n) of the database and of all edges.
  @_disfavoredOverload
  public func backup(to path: String, files handle: ExtensionHandle<Relationships>) throws {
    let shared = try read { tx in try tx[handle].context.shared }
    shared.locations.hold()
    defer {
      shared.locations.release()
      // Those that were to go meanwhile.
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

  /// The same for tasks.
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
    // The edges of the copy itself: later ones may lead to files that it has nothing of.
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
