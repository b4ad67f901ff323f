/** What an import has done with each thing of the other program. */
import { throwIfAborted } from '../../base/cancellation.js'
import { toGatewayError } from '../../base/errors.js'
import type { ImportedKind } from '../../base/imported-kinds.js'
import { Pauses } from '../../base/pauses.js'

/** 'changed': taken, but not as it was; the reason says how. */
export type Outcome = 'taken' | 'changed' | 'left out'

export interface ReportLine {
  readonly kind: ImportedKind
  readonly name: string
  readonly outcome: Outcome
  /** Why the thing is changed or left out; empty for what is taken. */
  readonly reason: string
}

export class Report {
  readonly #lines: ReportLine[] = []
  readonly #pauses: Pauses

  /** `signal`: ends the import. */
  constructor(private readonly signal?: AbortSignal) {
    this.#pauses = new Pauses(signal)
  }

  get lines(): readonly ReportLine[] {
    return this.#lines
  }

  /** `changes`: what is not as it was. */
  taken(kind: ImportedKind, name: string, changes: readonly string[] = []): void {
    this.#add({ kind, name, outcome: changes.length === 0 ? 'taken' : 'changed', reason: changes.join('; ') })
  }

  leftOut(kind: ImportedKind, name: string, reason: string): void {
    this.#add({ kind, name, outcome: 'left out', reason })
  }

  #add({ kind, name, outcome, reason }: ReportLine): void {
    this.#lines.push({ kind, name: shortened(name, 200), outcome, reason: shortened(reason, 1000) })
  }

  /** The result of `map`; if it throws an error, the thing is left out with its reason. Rejects with `aborted`. */
  async mapped<T>(kind: ImportedKind, name: string, map: () => T | Promise<T>): Promise<T | undefined> {
    throwIfAborted(this.signal)
    if (this.#pauses.areDue) await this.#pauses.take()
    try {
      return await map()
    } catch (error) {
      this.leftOut(kind, name, toGatewayError(error).reason)
      return undefined
    }
  }
}

/** Names come from the other program, and may have any length. */
function shortened(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`
}

export function leavesSomethingOut(lines: readonly ReportLine[]): boolean {
  return lines.some(({ outcome }) => outcome === 'left out')
}
