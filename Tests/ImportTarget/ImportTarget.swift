import Foundation
import Varve

/// The program of `Tests/ImportTarget/run`.
///
/// `make FOLDER` creates the SQLite files that the script imports; `check DATABASE` opens the imported database as
/// typed stores, and exits with 0 only if every object is right.
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
