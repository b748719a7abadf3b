/// A list of rows that a child process per engine and round runs in order on one database, for checks to read.
struct Scenario {
  var name: String
  /// The directory of its databases, which scenarios with the same directory share.
  var database: String
  /// The scenario that creates the database that this one opens.
  var requires: String?
  var steps: [Step]
  var adjust: (inout RunSettings) -> Void = { _ in }

  /// The sizes of the workloads: those of the table, or smaller ones for a smoke test.
  struct Size {
    var num: Int
    /// The number of values of 4 KiB.
    var largeNum: Int
    var aloneNum: Int
    /// The number of operations of the random reads.
    var reads: Int
    /// The duration of `longoverwrite` in seconds.
    var duration: Double

    init(num: Int, duration: Double) {
      self.num = num
      largeNum = max(num / 10, 1)
      aloneNum = min(600_000, num)
      reads = max(num / 5, 1)
      self.duration = duration
    }
  }

  /// Returns the scenarios of the table, in the order in which they run.
  static func all(_ size: Size) -> [Scenario] {
    let wait = Step(.waitforcompaction)
    return [
      Scenario(name: "alone", database: "alone", steps: [Step(.putalone), Step(.putaloneseq)]) {
        $0.aloneNum = size.aloneNum
      },
      // The minimum cost is measured before, between and after, because the device's speed changes from second to
      // second.
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
      // A cursor over all entries fills the cache; then the first random reads load the rest.
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
      // This scenario is the last on this database, because it changes it. First every engine's writer runs at one rate
      // that all can sustain, then each at its full speed.
      Scenario(
        name: "writing", database: "random", requires: "reads",
        steps: [
          Step(.readseq), Step(.readwhilewriting, reads: size.reads, writeRate: 50_000),
          Step(.readwhilewriting, reads: size.reads),
        ]),
    ]
  }

  /// Returns the scenario that runs only on request, because it takes `--duration` per engine and round.
  static func long(_ size: Size) -> Scenario {
    Scenario(
      name: "longoverwrite", database: "longoverwrite",
      steps: [Step(.fillrandom), Step(.overwrite, duration: size.duration), Step(.waitforcompaction)])
  }
}
