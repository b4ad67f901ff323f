/** The examples of docs/shares.md: their commands run beside a gateway, and visitors get what the page says. */
import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { shareStates } from '../../src/shares/visitor-access.js'
import { main } from '../cli/outcome.js'
import { startGateway, type RunningGateway } from '../gateway.js'
import { lacks } from '../programs.js'
import { storeVariables } from '../store-location.js'
import { until } from '../until.js'

const run = promisify(execFile)

const page = await readFile('docs/shares.md', 'utf8')

/** A section of the page. */
function section(title: string): string {
  const found = page.split(/^## /m).find((each) => each.startsWith(`${title}\n`))
  if (found === undefined) throw new Error(`docs/shares.md has no section ${title}`)
  return found
}

/** Runs the blocks of a section one after another: what one of them shares is known when the next one begins. */
async function runExample(t: Test, running: RunningGateway, title: string): Promise<string> {
  const folder = t.testdir({ tidegate: `#!/bin/sh\nexec '${process.execPath}' '${main}' "$@"\n`, here: {} })
  await run('chmod', ['755', join(folder, 'tidegate')])
  const here = join(folder, 'here')
  const env = {
    ...process.env,
    ...(await storeVariables(running.dataFolder)),
    PATH: `${folder}:${process.env.PATH ?? ''}`,
    TIDEGATE_DATA: running.dataFolder,
  }
  const { shares } = running.gateway
  for (const [, block = ''] of section(title).matchAll(/^```sh\n(.*?)^```$/gms)) {
    const commands = block.replaceAll('localhost:5244', new URL(running.url).host)
    await run('bash', ['-ec', commands], { env, cwd: here, timeout: 60_000 })
    for (const [, id = ''] of block.matchAll(/ --id (\w+)/g))
      t.ok(await until(() => shares.get(id) !== undefined), `${id} is known`)
  }
  return here
}

void t.test('docs/shares.md: visitors get what the page says', { skip: lacks('curl', 'bash') }, async (t) => {
  const running = await startGateway(t)
  const files = join(running.dataFolder, 'files', 'ann')
  const ask = async (path: string, agent: string) => {
    const response = await fetch(running.url + path, { headers: { 'user-agent': agent } })
    return { status: response.status, text: await response.text() }
  }

  await t.test('Before the examples', async (t) => {
    await runExample(t, running, 'Before the examples')
    const ann = () => running.gateway.accounts.users.byName('ann')
    t.ok(await until(() => ann() !== undefined))
    t.match(ann(), { basePath: '/ann' })
  })

  await t.test('Send a file', async (t) => {
    const here = await runExample(t, running, 'Send a file')
    t.equal(await readFile(join(here, 'offer.pdf'), 'utf8'), 'our offer\n')
    t.ok(await until(() => running.gateway.shares.get('offer')?.expires !== undefined))
    t.match(await ask('/sd/offer', 'nobody'), { status: 403 })
    const link = '/sd/offer?pwd=tide-27'
    for (const agent of ['second', 'third', 'second']) {
      t.match(await ask(link, agent), { status: 200, text: 'our offer\n' }, agent)
    }
    t.match(await ask(link, 'fourth'), { status: 410 })
  })

  await t.test('A file request', async (t) => {
    await runExample(t, running, 'A file request')
    const inbox = join(files, 'inbox')
    t.same((await readdir(inbox)).sort(), ['report (1).pdf', 'report.pdf'])
    for (const name of await readdir(inbox)) t.equal(await readFile(join(inbox, name), 'utf8'), 'all is well\n')
    const put = async (name: string) =>
      (await fetch(`${running.url}/sd/inbox/${name}`, { method: 'PUT', body: 'more' })).ok
    t.ok(await put('third.pdf'), 'a third file')
    t.notOk(await put('fourth.pdf'), 'no more than the limit says')
    t.notOk(await put('folder%2Ffile'), 'a name holds no folder')
    t.match(await ask('/sd/inbox/report.pdf', 'curl'), { status: 404 }, 'what was uploaded is not read back')
    t.equal((await readdir(inbox)).length, 3)
  })

  await t.test('A folder for a client, with a drive', async (t) => {
    const here = await runExample(t, running, 'A folder for a client, with a drive')
    t.equal(await readFile(join(here, 'plan.copy'), 'utf8'), 'a pier\n')
    const dav = async (method: string, path: string, code = 'harbour-9') => {
      const authorization = `Basic ${Buffer.from(`client:${code}`).toString('base64')}`
      const headers = { authorization, ...(method === 'PROPFIND' && { depth: '0' }) }
      const response = await fetch(running.davUrl + path, { method, headers, ...(method === 'PUT' && { body: 'new' }) })
      return { status: response.status, text: await response.text() }
    }
    t.match(await dav('PUT', '@s/client/plan.txt'), { status: 204 })
    t.match(await dav('DELETE', '@s/client/plan.txt'), { status: 403 })
    t.equal(await readFile(join(files, 'client', 'plan.txt'), 'utf8'), 'new')
    t.match(await dav('PROPFIND', '@s/client/', 'another'), { status: 401 })
    const parent = await dav('PROPFIND', '')
    t.equal(parent.status, 207)
    t.notMatch(parent.text, /ann|inbox|plan/)
  })
})

void t.test('docs/shares.md names each state', (t) => {
  const states = [...section('What ends a share').matchAll(/^\| `(\w+)` /gm)].map(([, state]) => state)
  t.same(new Set(states), new Set(shareStates))
  t.equal(states.length, shareStates.length)
  t.end()
})
