/// One child process an engine and round: rows in order on one database. Checks read them.
struct Scenario {
  var name: String
  /// The directory of its databases; scenarios with the same one share them.
  var database: String
  /// The scenario that leaves the database that this one opens.
  var requires: String?
  var steps: [Step]
  var adjust: (inout RunSettings) -> Void = { _ in }

  /// How much is run: the table's sizes, or the smoke's.
  struct Size {
    var num: Int
    /// Values of 4 KiB.
    var largeNum: Int
    var aloneNum: Int
    /// Operations of the random reads.
    var reads: Int
    /// Seconds of `longoverwrite`.
    var duration: Double

    init(num: Int, duration: Double) {
      self.num = num
      largeNum = max(num / 10, 1)
      aloneNum = min(600_000, num)
      reads = max(num / 5, 1)
      self.duration = duration
    }
  }

  /// The scenarios of the table, in the order in which they run.
  static func all(_ size: Size) -> [Scenario] {
    let wait = Step(.waitforcompaction)
    return [
      Scenario(name: "alone", database: "alone", steps: [Step(.putalone), Step(.putaloneseq)]) {
        $0.aloneNum = size.aloneNum
      },
      // The floor is measured before, between and after, because the device's speed changes from second to second.
      Scenario(
        name: "sync", database: "sync",
        steps: [Step(.syncloop), Step(.fillsync), Step(.syncloop), Step(.fillsync), Step(.syncloop)]),
      Scenario(name: "mixed", database: "mixed", steps: [Step(.fillmixed)]),
      Scenario(name: "seq", database: "seq", steps: [Step(.fillseq), wait]),
      Scenario(name: "clustered", database: "clustered", steps: [Step(.fillclustered), wait]),
      Scenario(name: "threads", database: "threads", steps: [Step(.fillrandom), wait]) { $0.threads = 4 },
      Scenario(name: "large", database: "large", steps: [Step(.fillrandom), wait]) {
        $0.valueSize = 4096
        $0.num = size.largeNum
      },
      Scenario(
        name: "random", database: "random",
        steps: [Step(.fillrandom), wait, Step(.overwrite), wait, Step(.overwritehot), wait]),
      // A cursor over everything fills the cache; then the first random reads warm what is left.
      Scenario(
        name: "reads", database: "random", requires: "random",
        steps: [
          Step(.compact), Step(.readseq), Step(.readseq), Step(.readrandom, reads: size.reads),
          Step(.readrandom, reads: size.reads), Step(.readmissing, reads: size.reads),
          Step(.seekrandom, reads: max(size.reads / 4, 1)),
        ]),
      Scenario(
        name: "smallcache", database: "random", requires: "reads",
        steps: [Step(.readrandom, reads: max(size.reads / 5, 1)), Step(.readrandom, reads: size.reads)]
      ) { $0.engineSettings.cacheBytes = 8 << 20 },
      // Last on this database, for it changes it. First every engine's writer at one rate that all
      // can hold, then each at its own full speed.
      Scenario(
        name: "writing", database: "random", requires: "reads",
        steps: [
          Step(.readseq), Step(.readwhilewriting, reads: size.reads, writeRate: 50_000),
          Step(.readwhilewriting, reads: size.reads),
        ]),
    ]
  }

  /// Only when asked for by name: it takes `--duration` an engine and round.
  static func long(_ size: Size) -> Scenario {
    Scenario(
      name: "longoverwrite", database: "longoverwrite",
      steps: [Step(.fillrandom), Step(.overwrite, duration: size.duration), Step(.waitforcompaction)])
  }
}
