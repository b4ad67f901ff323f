/** A front before an FTP server, on loopback: it sees each command, and decides what becomes of it. */
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { createServer as createTlsServer, type TlsOptions } from 'node:tls'

/** The server gets it; it, or the answer to it, is lost with the connection; or something is said here: as its answer, or before it. */
export type Fate = 'pass' | 'lost' | 'answer lost' | { readonly answer: string } | { readonly before: string }

interface FtpFront {
  readonly port: number
  /** Connections that were made so far. */
  readonly made: number
  /** Says something to all who are connected. */
  say(text: string): void
  stop(): Promise<void>
}

/** `fate`: of one command, and which of the connections it came over, the first being 1. `tls`: the front speaks TLS from the start, the server need not. */
export async function startFtpFront(
  target: number,
  fate: (command: string, connection: number) => Fate,
  tls?: TlsOptions,
): Promise<FtpFront> {
  const sockets = new Set<Socket>()
  const clients = new Set<Socket>()
  let made = 0
  const attend = (client: Socket) => {
    const connection = ++made
    const upstream = connect(target, '127.0.0.1')
    clients.add(client)
    const end = () => {
      clients.delete(client)
      client.destroy()
      upstream.destroy()
    }
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.setNoDelay(true).setEncoding('latin1').on('error', end)
      socket.once('close', () => {
        sockets.delete(socket)
        end()
      })
    }
    let losesAnswer = false
    upstream.on('data', (text: string) => (losesAnswer ? end() : client.write(text, 'latin1')))
    let rest = ''
    client.on('data', (text: string) => {
      const lines = (rest + text).split('\r\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        if (client.destroyed) return
        const decided = fate(line, connection)
        if (typeof decided === 'object') {
          client.write(`${'answer' in decided ? decided.answer : decided.before}\r\n`, 'latin1')
          if ('answer' in decided) continue
        }
        losesAnswer = decided === 'answer lost'
        if (decided === 'lost') end()
        else upstream.write(`${line}\r\n`, 'latin1')
      }
    })
  }
  const server = tls ? createTlsServer(tls, attend) : createServer(attend)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    get made() {
      return made
    },
    say(text) {
      for (const client of clients) client.write(`${text}\r\n`, 'latin1')
    },
    async stop() {
      for (const socket of sockets) socket.destroy()
      await once(server.close(), 'close')
    },
  }
}
