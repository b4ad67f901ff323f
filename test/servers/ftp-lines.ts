/**
 * A double of an FTP server without MLSD, on loopback: the test says what it replies, and which lines its listings
 * have.
 */
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'

interface FtpLines {
  readonly port: number
  /** All commands that have arrived. */
  readonly commands: string[]
  stop(): Promise<void>
}

/** The reply to a command, or the lines that are sent over the data connection. */
type Reply = string | readonly string[] | undefined

const usual: Readonly<Record<string, string>> = {
  USER: '331 Password?',
  PASS: '230 Welcome.',
  FEAT: '211-Features:\r\n SIZE\r\n MDTM\r\n211 End',
  TYPE: '200 Binary.',
  NOOP: '200 Here.',
}

/** `replyTo`: undefined for the usual reply, which is a refusal of whatever is not part of signing in. */
export async function startFtpLines(replyTo: (command: string) => Reply): Promise<FtpLines> {
  const sockets = new Set<Socket>()
  const commands: string[] = []
  const attend = (client: Socket) => {
    sockets.add(client)
    client.setEncoding('latin1').on('error', () => undefined)
    const say = (text: string) => client.write(`${text}\r\n`)
    let data: Promise<Socket> | undefined
    const openData = async () => {
      const passive = createServer().listen(0, '127.0.0.1')
      await once(passive, 'listening')
      data = once(passive, 'connection').then(([socket]) => {
        passive.close()
        return (socket as Socket).on('error', () => undefined)
      })
      say(`229 Extended passive mode (|||${(passive.address() as AddressInfo).port}|)`)
    }
    const sendLines = async (lines: readonly string[]) => {
      say('150 Here it comes.')
      const socket = await data
      socket?.end(lines.map((line) => `${line}\r\n`).join(''), () => say('226 Done.'))
    }
    const answer = async (command: string) => {
      commands.push(command)
      const reply = replyTo(command)
      if (typeof reply === 'object') await sendLines(reply)
      else if (reply === undefined && command === 'EPSV') await openData()
      else say(reply ?? usual[command.split(' ', 1)[0] ?? ''] ?? '502 Not here.')
    }
    let rest = ''
    let answered = Promise.resolve()
    client.on('data', (text: string) => {
      const lines = (rest + text).split('\r\n')
      rest = lines.pop() ?? ''
      for (const line of lines) answered = answered.then(() => answer(line))
    })
    say('220 Hello.')
  }
  const server = createServer(attend).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    commands,
    stop: async () => {
      for (const socket of sockets) socket.destroy()
      await once(server.close(), 'close')
    },
  }
}
