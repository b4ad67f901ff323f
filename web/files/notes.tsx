export function Notes({ text }: { readonly text: string }) {
  return text === '' ? null : <div class="notes">{text}</div>
}
