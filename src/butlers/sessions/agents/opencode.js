// Written by `butlers connect`; `butlers disconnect` removes it.
// @BUTLER@, home: @HOME@
const HOOK = @HOOK@
export const Butlers = async () => ({})
