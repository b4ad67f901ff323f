/** Who and what of events, in plain words. */
import { textFor, textsOf } from '../texts/texts.ts'

const texts = textsOf('common', 'events')

/** `ann`, or who did it if that was no user. The names of users are shown as they are: no user has a colon in it. */
export function actorText(user: string): string {
  const { events } = texts
  if (user === 'gateway:') return events.server
  return user.startsWith('share:') ? events.visitor(user.slice('share:'.length)) : user || events.unknownName
}

/** `stored a new file`. The kind as it is if the console does not know it. */
export function kindText(kind: string): string {
  return textFor(kind, texts.events.kinds) ?? kind
}

interface Origin {
  readonly address: string | null
  readonly protocol: string | null
}

/** `192.0.2.7, WebDAV`. */
export function originText({ address, protocol }: Origin): string {
  return texts.facts([address, protocol !== null && protocolText(protocol)])
}

/** `WebDAV`. The name as it is if the console does not know it. */
export function protocolText(protocol: string): string {
  return textFor(protocol, texts.events.protocols) ?? protocol
}
