/** The examples of docs/rights.md: their commands run beside a daemon, and each person has what the tables say. */
import { execFile } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { explainedSteps } from '../../src/base/decision-steps.js'
import { main } from '../cli/outcome.js'
import { startDaemon, type Daemon } from '../gateway.js'
import { lacks } from '../programs.js'
import { storeVariables } from '../store-location.js'
import { until } from '../until.js'

const run = promisify(execFile)
const password = 'a password for the examples'

/** What a person may do in a folder, as the tables word it. */
const everything = ['see', 'read', 'write', 'rename', 'remove'] as const
type Deed = (typeof everything)[number]

interface Example {
  readonly title: string
  readonly commands: string
  /** By person and path: the text of the cell. */
  readonly cells: readonly { readonly person: string; readonly path: string; readonly text: string }[]
}

/** The sections of the page that have commands and a table of persons and paths. */
async function examples(): Promise<readonly Example[]> {
  const page = await readFile('docs/rights.md', 'utf8')
  const sections = page.split(/^## /m).slice(1)
  return sections.flatMap((section) => {
    const commands = [...section.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, text = '']) => text).join('')
    const [head, , ...rows] = section
      .split('\n')
      .filter((line) => line.startsWith('|'))
      .map(cellsOf)
    if (commands === '' || head === undefined) return []
    const paths = head.slice(1).map((cell) => cell.replaceAll('`', ''))
    const cells = rows.flatMap(([person = '', ...texts]) =>
      texts.map((text, index) => ({ person, path: paths[index] ?? '', text })),
    )
    return [{ title: section.split('\n')[0] ?? '', commands, cells }]
  })
}

function cellsOf(line: string): readonly string[] {
  return line
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim())
}

function expectedOf(text: string): readonly Deed[] | 'the way' {
  if (text === 'the way') return text
  if (text === 'everything') return everything
  const words = text === 'nothing' ? [] : text.split(', ')
  for (const word of words) if (!(everything as readonly string[]).includes(word)) throw new Error(`unknown: ${word}`)
  return words as Deed[]
}

interface Person {
  readonly send: (method: string, path: string, headers?: Readonly<Record<string, string>>) => Promise<Response>
}

function personOf({ davUrl }: Daemon, username: string, secret: string): Person {
  const authorization = `Basic ${Buffer.from(`${username}:${secret}`).toString('base64')}`
  const url = davUrl.slice(0, -1)
  return {
    send: (method, path, { destination, ...headers } = {}) =>
      fetch(url + path, {
        method,
        headers: { authorization, ...headers, ...(destination !== undefined && { destination: url + destination }) },
        ...(method === 'PUT' && { body: 'x' }),
      }),
  }
}

/** What a person may do with a new file in the folder. */
async function found(files: string, person: Person, path: string): Promise<readonly Deed[] | 'the way'> {
  const make = async () => {
    await writeFile(join(files, path, 'file'), 'content')
  }
  await make()
  const listing = await person.send('PROPFIND', path, { depth: '1' })
  const deeds: Deed[] = []
  if ((await listing.text()).includes(`${path}/file<`)) deeds.push('see')
  const content = await person.send('GET', `${path}/file`)
  if ((await content.text()) === 'content') deeds.push('read')
  if ((await person.send('PUT', `${path}/file`)).ok) deeds.push('write')
  await make()
  if ((await person.send('MOVE', `${path}/file`, { destination: `${path}/other` })).ok) deeds.push('rename')
  await make()
  if ((await person.send('DELETE', `${path}/file`)).ok) deeds.push('remove')
  return deeds.length === 0 && listing.status === 207 ? 'the way' : deeds
}

void t.test('docs/rights.md: each person has what the tables say', { skip: lacks('curl', 'bash') }, async (t) => {
  const all = await examples()
  t.equal(all.length, 3, 'the examples were found')
  for (const { title, commands, cells } of all) {
    await t.test(title, async (t) => {
      const daemon = await startDaemon(t)
      const files = join(daemon.dataFolder, 'files')
      for (const { path } of cells) await mkdir(join(files, path), { recursive: true })
      const programs = t.testdir({ tidegate: `#!/bin/sh\nexec '${process.execPath}' '${main}' "$@"\n` })
      await run('chmod', ['755', join(programs, 'tidegate')])
      const { data } = (await (
        await fetch(`${daemon.url}/api/auth/login`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ username: 'admin', password: daemon.adminPassword }),
        })
      ).json()) as { data: { token: string } }
      const environment = {
        ...process.env,
        ...(await storeVariables(daemon.dataFolder)),
        PATH: `${programs}:${process.env.PATH ?? ''}`,
        TIDEGATE_DATA: daemon.dataFolder,
        TIDEGATE_PASSWORD: password,
        PASSWORD: password,
        TOKEN: data.token,
      }
      // The passwords are known instead of random.
      const here = commands.replaceAll(' --random', '').replaceAll('localhost:5244', new URL(daemon.url).host)
      const { stdout } = await run('bash', ['-ec', here], { env: environment, timeout: 120_000 })
      t.notMatch(stdout, /"error"/)
      const shell = (words: string) => run('bash', ['-ec', words], { env: environment })
      t.ok(await until(() => isInForce(daemon, data.token, shell)), 'the daemon has what was stored')
      for (const { person, path, text } of cells) {
        const deeds = await found(files, personOf(daemon, person, password), path)
        t.same(deeds, expectedOf(text), `${person} in ${path}`)
      }
    })
  }
})

interface Listed {
  readonly grants: readonly unknown[]
  readonly members?: readonly unknown[]
}

/** Whether the daemon has the grants and members that the commands have stored. */
async function isInForce(
  { url }: Daemon,
  token: string,
  shell: (words: string) => Promise<{ readonly stdout: string }>,
): Promise<boolean> {
  const list = async (kind: 'user' | 'group') => {
    const response = await fetch(`${url}/api/admin/${kind}/list`, { headers: { authorization: token } })
    return ((await response.json()) as { data: { content: readonly Listed[] } }).data.content
  }
  const [users, groups] = [await list('user'), await list('group')]
  const stored = JSON.parse((await shell('tidegate grant list --json')).stdout) as readonly unknown[]
  const members = JSON.parse((await shell('tidegate group list --json')).stdout) as readonly Required<Listed>[]
  const count = (lists: readonly (readonly unknown[] | undefined)[]) => lists.flatMap((each) => each ?? []).length
  return (
    count([...users, ...groups].map(({ grants }) => grants)) === stored.length &&
    count(groups.map((each) => each.members)) === count(members.map((each) => each.members))
  )
}

void t.test('docs/api.md says what each step of an explanation asks', async (t) => {
  const cells = (await readFile('docs/api.md', 'utf8')).replaceAll(/ +/g, ' ')
  for (const [name, asks] of Object.entries(explainedSteps)) t.ok(cells.includes(`\n| \`${name}\` | ${asks} |`), name)
})
