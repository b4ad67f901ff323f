/**
 * How much room V8's collector gives to what it has not collected yet. Its defaults are made for pages and scripts; here most
 * bytes pass by once, outside of the heap, on their way from a socket to a disk. Imported before anything large is loaded: until
 * `startIsOver` the space for young objects stays small, because what a start makes is there to stay, and the room it would take
 * is not given back later.
 */
import { setFlagsFromString } from 'node:v8'

setFlagsFromString('--semi-space-growth-factor=1')
setFlagsFromString('--heap-growing-percent=40')

/** To be called once, when everything is loaded. */
export function startIsOver(): void {
  setFlagsFromString('--semi-space-growth-factor=2')
  // The bytes of passing buffers count as growth of the heap. By default it is marked whole after every few of them, thirty times in
  // a GiB; with room for twice its size they are gone before that, by the quick way for young objects.
  setFlagsFromString('--heap-growing-percent=200')
}
