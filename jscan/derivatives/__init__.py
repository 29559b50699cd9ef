"""Derivatives of scans, as recurrences that scans solve.

A scan by an operator f is ``y[t] = f(y[t-1], x[t])``. Put

    A[t] = ∂f/∂y (y[t-1], x[t])              B[t] = ∂f/∂x (y[t-1], x[t])

Differentiating both sides gives the tangents dy of the results from those of the elements, dx:

    dy[t] = A[t] dy[t-1] + B[t] dx[t]

a linear recurrence, which a scan by the affine operator solves (Blelloch 1990). Reversed mode takes
cotangents ȳ of the results to x̄ of the elements. Let λ[t] be the derivative of all that follows in
y[t]: y[t] is a result itself, and enters y[t+1] with slope A[t+1]. Hence

    λ[t] = ȳ[t] + A[t+1]ᵀ λ[t+1]              x̄[t] = B[t]ᵀ λ[t]

the same recurrence, run the other way with A one position on. At the start of the axis and of each
segment y is x, so dy is dx and x̄ is λ. Both take the memory of their operands, and are linear in
what comes in, so derivatives of any order are scans too.

    jacobian       A and B, entry by entry, as functions of scalars
    components     the recurrence taken apart: leaves whose tangents depend on each other
    recurrence     what is scanned, and what follows from the states, forwards and transposed
    scan_jvp       the tangents of a scan, component by component
    transposition  cotangents of what scans and reductions are linear in
    tangents       tangents as JAX hands them to a rule

Operands are *moving* where they have a tangent. Those of a recurrence are *known* if its matrices
read them, and *linear* if they come in as v or g. A matrix has *entries*, each a *slope*; those of
A, with what is added to them, are the *elements* of a scan, whose results are the *states*.
"""
