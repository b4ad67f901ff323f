/** The clock of this process, which tests can move. Import it before what reads the clock is opened. */
const { now } = Date
let offset = 0

Date.now = () => now.call(Date) + offset

/** Sets the clock to this number of milliseconds after the real time. */
export function moveClock(milliseconds: number): void {
  offset = milliseconds
}
