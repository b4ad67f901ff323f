/** Parses the TAP output of a test file into the numbers of tests and a list of failures. */
import { Parser, type Result } from 'tap-parser'

interface Failure {
  readonly name: string
  /** The lines that tap reports: message, difference, place, stack. */
  readonly details: readonly string[]
}

export interface FileResults {
  passed: number
  failed: number
  skipped: number
  readonly failures: Failure[]
}

/**
 * Counts tests, not assertions. A test is a block without further blocks. An assertion beside such blocks is counted
 * only if it fails. A skipped block or assertion is counted as skipped everywhere.
 */
export function parseResults(onComplete: (results: FileResults) => void): Parser {
  const results: FileResults = { passed: 0, failed: 0, skipped: 0, failures: [] }
  const parser = new Parser((final) => {
    // A wrong plan and the absence of tests fail the file without a failed assertion.
    if (!final.ok && results.failed === 0) fail(final.bailout === false ? 'the plan does not fit' : 'bailed out')
    onComplete(results)
  })
  const fail = (name: string, details: readonly string[] = []): void => {
    results.failed++
    results.failures.push({ name, details })
  }

  const watch = (block: Parser, isFile: boolean): { readonly end: (closing?: Result) => void } => {
    let blocks = 0
    let asserts = 0
    const failed: Result[] = []
    let last: { readonly end: (closing?: Result) => void } | undefined
    block.on('child', (child: Parser) => {
      blocks++
      last = watch(child, false)
    })
    block.on('assert', (result: Result) => {
      if (result.closingTestPoint && last !== undefined) {
        last.end(result)
        last = undefined
      } else if (result.skip !== false || result.todo !== false) {
        results.skipped++
      } else {
        asserts++
        if (!result.ok) failed.push(result)
      }
    })
    return {
      end: (closing) => {
        const isTest = blocks === 0
        const ok = failed.length === 0 && (isTest ? closing?.ok !== false : true)
        const name = closing?.fullname ?? block.fullname
        if (isTest && closing !== undefined && closing.skip !== false) results.skipped++
        else if (isTest && ok && (asserts > 0 || !isFile)) results.passed++
        else if (!ok)
          fail(name, [...failed, ...(failed.length === 0 && closing?.ok === false ? [closing] : [])].flatMap(describe))
      },
    }
  }
  const file = watch(parser, true)
  parser.on('complete', () => file.end())
  return parser
}

function describe(result: Result): string[] {
  const lines: string[] = [`✖ ${result.name}`]
  const diag: unknown = result.diag
  if (typeof diag !== 'object' || diag === null) return lines
  const { at, source, stack, diff, ...others } = diag as Record<string, unknown>
  if (typeof at === 'object' && at !== null) {
    const place = at as { readonly fileName?: unknown; readonly lineNumber?: unknown }
    lines.push(`  at ${String(place.fileName)}:${String(place.lineNumber)}`)
  }
  for (const text of [diff, source, stack]) {
    if (typeof text === 'string')
      lines.push(
        ...text
          .trimEnd()
          .split('\n')
          .map((line) => `  ${line}`),
      )
  }
  for (const [key, value] of Object.entries(others)) lines.push(`  ${key}: ${JSON.stringify(value)}`)
  return lines
}
