import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { takeDataFolder } from '../../src/data-folder.js'
import { startDaemon, startGateway } from '../gateway.js'
import { zombie } from '../zombie.js'

void t.test('a second daemon is refused while the first one runs, and not after a kill', async (t) => {
  const first = await startDaemon(t)
  const options = { dataFolder: first.dataFolder, adminPassword: first.adminPassword }
  await t.rejects(startDaemon(t, options), /another tidegate \(process \d+\) serves the data folder/)
  await t.rejects(startGateway(t, options), { code: 'busy' })
  t.equal((await fetch(`${first.url}/ping`)).status, 200, 'the first one goes on')
  await first.kill()
  const second = await startDaemon(t, options)
  t.equal(await second.stop(), 0)
  await t.rejects(readFile(join(first.dataFolder, 'daemon.pid')), { code: 'ENOENT' })
})

void t.test('a process that only has the number of a dead daemon is not taken for it', async (t) => {
  const folder = t.testdir()
  const child = spawn('sleep', ['60'])
  await once(child, 'spawn')
  t.teardown(() => child.kill())
  await writeFile(join(folder, 'daemon.pid'), `${child.pid ?? 0} 1`)
  const giveBack = await takeDataFolder(folder)
  await giveBack()
})

const skip = process.platform === 'linux' ? false : 'only Linux shows the state of processes'
void t.test('a killed daemon that nobody has waited for has no folder', { skip }, async (t) => {
  const folder = t.testdir()
  const { pid, started } = await zombie(t)
  await writeFile(join(folder, 'daemon.pid'), `${pid} ${started}`)
  const giveBack = await takeDataFolder(folder)
  await giveBack()
})
