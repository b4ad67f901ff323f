/** What Debian's ssh-audit says of the port, with the host keys of a first run. */
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { startGateway } from '../../gateway.js'
import { findProgram, lacks } from '../../programs.js'

void t.test('ssh-audit finds nothing to fail', { skip: lacks('ssh-audit') }, async (t) => {
  const { sftpPort } = await startGateway(t)
  const child = spawn(findProgram('ssh-audit')!, ['--no-colors', '--port', String(sftpPort), '127.0.0.1'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  const report = await text(child.stdout)
  const lines = report.split('\n')
  t.match(report, /\(kex\) .*\n/, 'it has seen the key exchange')
  t.match(report, /\(key\) ssh-ed25519 /)
  t.match(report, /\(key\) rsa-sha2-512 \(\d+-bit\)/)
  t.same(
    lines.filter((line) => line.includes('[fail]')),
    [],
  )
  // 2: it warns, since it does not know the name of strict key exchange yet; 3 would be failures, 1 a broken connection.
  t.ok([0, 2].includes((await ended) ?? -1), 'its status says the same')
})

void t.test('the RSA host key signs with SHA-2 alone, and OpenSSH takes it', { skip: lacks('sftp') }, async (t) => {
  const { sftpPort } = await startGateway(t)
  const offered = async (algorithm: string) => {
    const options = ['-oBatchMode=yes', '-oUserKnownHostsFile=/dev/null', '-oStrictHostKeyChecking=no']
    const args = [...options, `-oHostKeyAlgorithms=${algorithm}`, '-v', '-P', String(sftpPort), 'nobody@127.0.0.1']
    const child = spawn(findProgram('sftp')!, args, { stdio: ['ignore', 'ignore', 'pipe'] })
    t.teardown(() => child.kill('SIGKILL'))
    const said = await text(child.stderr)
    return said.includes('SSH2_MSG_NEWKEYS received')
  }
  t.equal(await offered('rsa-sha2-512'), true)
  t.equal(await offered('rsa-sha2-256'), true)
  t.equal(await offered('ssh-rsa'), false)
})
