export default function SearchPage(_: { readonly me?: unknown }) {
  return <p>SearchPage</p>
}
