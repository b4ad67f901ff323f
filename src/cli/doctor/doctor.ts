/** `tidegate doctor`: what is wrong with an installation, and what to do about it. */
import type { Command } from 'commander'
import type { Config } from '../../installation/config.js'
import { version } from '../../base/version.js'
import { check } from '../check.js'
import { configOf, withAccounts, withAddressOptions, withCommonOptions, type CommonFlags } from '../data-folder.js'
import { reasonOf, wordFor, wrong, type Finding } from '../finding.js'
import { print, printable } from '../output.js'
import type { Store } from '../../database/tables.js'
import { contentFindings } from './contents.js'
import { fileFindings } from './files.js'
import { machineFindings } from './machine.js'

export function addDoctorCommand(program: Command): void {
  withAddressOptions(withCommonOptions(program.command('doctor')))
    .description(
      'check all that "check" does, and the machine, permissions, certificates, limits and settings; say what to do about ' +
        'each fault; exits with status 1 if there is one',
    )
    .action(async (flags: CommonFlags) => {
      const findings = await diagnose(flags)
      print(flags, findings, findings.map(lineOf).join('\n'))
      if (findings.some(({ ok }) => ok === false)) process.exitCode = 1
    })
}

/** All findings on the installation that the flags and the environment name. */
async function diagnose(flags: CommonFlags): Promise<readonly Finding[]> {
  let config: Config
  try {
    config = await configOf(flags)
  } catch (error) {
    return [wrong('configuration', reasonOf(error), 'correct the file, the option or the variable that this names')]
  }
  return examine(config)
}

/**
 * The findings on an installation: those on files first, because the others may follow from them. `timeout`:
 * milliseconds for each storage to answer.
 */
export async function examine(config: Config, timeout?: number): Promise<readonly Finding[]> {
  const findings: readonly Finding[] = [
    { what: 'Tidegate', ok: true, detail: version },
    ...(await machineFindings(config)),
    ...(await fileFindings(config)),
  ]
  // After the files: it opens the database, which changes their times.
  const further = (store: Store) => withAccounts(config, store, contentFindings)
  return [...findings, ...(await check(config, { timeout, further }))]
}

/** A line for the finding, and below it one for what to do. */
function lineOf({ what, ok, detail, remedy }: Finding): string {
  const line = printable(`${wordFor(ok).padEnd(11)}  ${what}: ${detail}`)
  return remedy === undefined ? line : `${line}\n${' '.repeat(13)}→ ${printable(remedy)}`
}
