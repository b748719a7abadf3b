import Foundation
import Varve

/// `make FOLDER` makes the files of SQLite that `Tests/ImportTarget/run` imports; `check DATABASE` opens what was imported as
/// typed stores, and ends with 0 only if each object is right.
@main
enum ImportTarget {
  static func main() throws {
    let arguments = CommandLine.arguments
    guard arguments.count == 3 else { throw TargetError("make FOLDER, or check DATABASE") }
    switch arguments[1] {
    case "make":
      #if SQLite
        try ImportFiles.make(in: arguments[2])
      #else
        throw TargetError("this program was built without the trait SQLite")
      #endif
    case "check": try ImportChecks.run(arguments[2])
    default: throw TargetError("make FOLDER, or check DATABASE")
    }
  }
}

struct TargetError: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}
