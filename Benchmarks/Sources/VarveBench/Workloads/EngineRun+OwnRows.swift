import Foundation
import VarveEngine

/// Workloads for Varve only.
extension EngineRun {
  /// Returns the row of a workload, and the path of a directory for it, which does not exist. The caller removes the
  /// directory.
  func beginOwnRow(_ workload: Workload) throws -> (row: Row, path: String) {
    guard settings.engine == .varve else { throw EngineFailure("\(workload.rawValue) is a row of varve alone") }
    let path = enginePath + "-" + workload.rawValue
    try? FileManager.default.removeItem(atPath: path)
    var row = Row()
    row.engine = settings.engine.rawValue
    row.version = VarveAdapter.version
    row.workload = workload.rawValue
    row.round = settings.round
    return (row, path)
  }
}
