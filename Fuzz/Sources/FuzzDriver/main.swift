import CFuzzDriver
import Foundation
import FuzzTargets

// Runs damaged inputs through the targets, in an order that a seed determines.
//
//     varve-fuzz                          every target, 100,000 executions each, a seed of today
//     varve-fuzz block log --executions 10000000 --seed 7
//     varve-fuzz log --seed 7 --replay 4711           one execution again
//     varve-fuzz log --seed 7 --replay 4711 --keep torn-durable-mark    and kept in Corpus/log

do {
  let arguments = try Arguments(CommandLine.arguments.dropFirst())
  crash_note_install()
  var isFaultless = true
  for target in arguments.targets {
    let driver = try Driver(target, arguments)
    isFaultless = try driver.run() && isFaultless
  }
  exit(isFaultless ? 0 : 1)
} catch {
  FileHandle.standardError.write(Data("varve-fuzz: \(error)\n".utf8))
  exit(64)
}
