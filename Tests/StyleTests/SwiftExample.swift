import Foundation

/// A block of Swift code in a document: the lines between one with three backquotes and `swift`, and the next three
/// backquotes.
struct SwiftExample {
  let path: String
  /// The line number in the document of the block's first line.
  let line: Int
  let lines: [Substring]

  static func blocks(_ file: SourceFile) -> [SwiftExample] {
    var blocks: [SwiftExample] = []
    var start: Int?
    let lines = file.lines
    for (index, line) in lines.enumerated() {
      if let first = start {
        guard line == "```" else { continue }
        blocks.append(SwiftExample(path: file.path, line: first + 1, lines: Array(lines[first..<index])))
        start = nil
      } else if line == "```swift" {
        start = index + 1
      }
    }
    return blocks
  }
}

/// A type checker of examples, which uses the modules that were built for the tests.
///
/// Each block becomes the body of its own function, after its imports and without its `@main`, of which a module has
/// one; `#sourceLocation` makes the compiler report the document and its line.
struct ExampleCompiler {
  /// The compiler flags in addition to the search paths.
  var flags: [String] = []

  /// Returns the compiler's messages, or an empty string if all examples compile.
  func failures(_ blocks: [SwiftExample]) throws -> String {
    guard !blocks.isEmpty else { return "" }
    let directory = FileManager.default.temporaryDirectory.appending(path: "varve-examples-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: directory) }
    let source = directory.appending(path: "Examples.swift")
    try Data(Self.source(blocks).utf8).write(to: source)

    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["swiftc", "-typecheck", "-swift-version", "6"] + flags + Self.searchPaths + [source.path]
    let output = Pipe()
    process.standardOutput = output
    process.standardError = output
    try process.run()
    let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    guard process.terminationReason == .exit, process.terminationStatus == 0 else {
      return text.isEmpty ? "swiftc ended with status \(process.terminationStatus)" : text
    }
    return ""
  }

  private static func source(_ blocks: [SwiftExample]) -> String {
    var imports: Set<Substring> = []
    var functions = ""
    for (number, block) in blocks.enumerated() {
      // If two overloads differ only by `async`, an asynchronous function always selects the asynchronous one.
      let effects = block.lines.contains { $0.contains("await ") } ? "async throws" : "throws"
      functions += "func example\(number)() \(effects) {\n"
      functions += "#sourceLocation(file: \"\(block.path)\", line: \(block.line))\n"
      for line in block.lines {
        if line.hasPrefix("import ") {
          imports.insert(line)
          functions += "\n"
        } else if line == "@main" {
          functions += "\n"
        } else {
          functions += line + "\n"
        }
      }
      functions += "#sourceLocation()\n}\n"
    }
    // Without SwiftUI, the code that needs it must be in an `#if` of the example.
    let lines = imports.sorted().map { line in
      line == "import SwiftUI" ? "#if canImport(SwiftUI)\nimport SwiftUI\n#endif" : String(line)
    }
    return lines.joined(separator: "\n") + "\n" + functions
  }

  /// The modules are in the directory of the test bundle; the C modules are part of the sources.
  private static var searchPaths: [String] {
    let products = productsDirectory
    var paths = ["-I", products, "-I", products + "/Modules"]
    for folder in ["CLZ4", "CZstd", "CVarve/include"] { paths += ["-I", Repository.root + "/Sources/" + folder] }
    // SwiftPM writes the module map of a C target next to its objects.
    paths += ["-Xcc", "-fmodule-map-file=" + products + "/CVarve.build/module.modulemap"]
    return paths
  }

  private static var productsDirectory: String {
    #if os(macOS)
      for bundle in Bundle.allBundles where bundle.bundlePath.hasSuffix(".xctest") {
        return bundle.bundleURL.deletingLastPathComponent().path
      }
    #endif
    return URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath().deletingLastPathComponent().path
  }
}
