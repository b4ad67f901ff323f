/** The ring of a test file follows from what it imports. */
import { importsOf } from './imports.js'

const processes = ['node:child_process', 'node:cluster']

/** What starts processes, looks for programs that tests install, opens a whole gateway, or tests a whole driver. */
const slowImports = [
  ...processes,
  'test/programs.ts',
  'test/driver-conformance/driver.ts',
  'src/gateway/gateway.ts',
  'src/process/daemon.ts',
]

/** Where imports are followed. What the product starts further down, `test/no-processes.ts` refuses. */
const followed = /^(?:test|bench|tools)\//

/** Whether `npm run test:fast` runs a test file: neither it nor what it imports of the tests has such an import. */
export function isFast(file: string): boolean {
  const files = new Set([file])
  for (const each of files) {
    for (const { to, isFile, isType } of importsOf(each)) {
      if (isType) continue
      if (slowImports.includes(to)) return false
      if (followed.test(to)) files.add(to)
      else if (isFile && importsOf(to).some((inner) => processes.includes(inner.to))) return false
    }
  }
  return true
}
