// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// Stands in for USDC on a chain of one's own: ERC-20 with 6 decimals and EIP-3009, under USDC's EIP-712 domain.
/// It has no constructor, so that its code can be placed at USDC's address; slot 0 then holds who may mint.
contract TestDollar {
    address public minter;
    uint256 public totalSupply;
    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;
    mapping(address => mapping(bytes32 => bool)) public authorizationState;

    string public constant name = "USD Coin";
    string public constant symbol = "USDC";
    string public constant version = "2";
    uint8 public constant decimals = 6;

    bytes32 private constant DOMAIN_TYPE =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
    bytes32 public constant TRANSFER_WITH_AUTHORIZATION_TYPEHASH = keccak256(
        "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    bytes32 public constant RECEIVE_WITH_AUTHORIZATION_TYPEHASH = keccak256(
        "ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    bytes32 public constant CANCEL_AUTHORIZATION_TYPEHASH =
        keccak256("CancelAuthorization(address authorizer,bytes32 nonce)");

    /// Half the order of secp256k1: a signature with a larger s is the mirror image of another (EIP-2).
    uint256 private constant HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0;
    bytes4 private constant EIP1271_MAGIC = 0x1626ba7e;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);
    event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);
    event AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce);

    /// EIP-3009's message, in the order in which it is hashed.
    struct Authorization {
        address from;
        address to;
        uint256 value;
        uint256 validAfter;
        uint256 validBefore;
        bytes32 nonce;
    }

    function mint(address to, uint256 value) external {
        require(msg.sender == minter, "TestDollar: only the minter mints");
        require(to != address(0), "TestDollar: to the zero address");
        totalSupply += value;
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
    }

    function transfer(address to, uint256 value) external returns (bool) {
        _move(msg.sender, to, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        uint256 allowed = allowance[from][msg.sender];
        require(value <= allowed, "TestDollar: more than the allowance");
        if (allowed != type(uint256).max) allowance[from][msg.sender] = allowed - value;
        _move(from, to, value);
        return true;
    }

    function approve(address spender, uint256 value) external returns (bool) {
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
        return true;
    }

    function DOMAIN_SEPARATOR() public view returns (bytes32) {
        return keccak256(
            abi.encode(DOMAIN_TYPE, keccak256(bytes(name)), keccak256(bytes(version)), block.chainid, address(this))
        );
    }

    function transferWithAuthorization(
        address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce,
        uint8 v, bytes32 r, bytes32 s
    ) external {
        _transferAuthorized(
            Authorization(from, to, value, validAfter, validBefore, nonce), abi.encodePacked(r, s, v)
        );
    }

    function transferWithAuthorization(
        address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce,
        bytes memory signature
    ) external {
        _transferAuthorized(Authorization(from, to, value, validAfter, validBefore, nonce), signature);
    }

    function receiveWithAuthorization(
        address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce,
        uint8 v, bytes32 r, bytes32 s
    ) external {
        _receiveAuthorized(
            Authorization(from, to, value, validAfter, validBefore, nonce), abi.encodePacked(r, s, v)
        );
    }

    function receiveWithAuthorization(
        address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce,
        bytes memory signature
    ) external {
        _receiveAuthorized(Authorization(from, to, value, validAfter, validBefore, nonce), signature);
    }

    function cancelAuthorization(address authorizer, bytes32 nonce, uint8 v, bytes32 r, bytes32 s) external {
        _cancel(authorizer, nonce, abi.encodePacked(r, s, v));
    }

    function cancelAuthorization(address authorizer, bytes32 nonce, bytes memory signature) external {
        _cancel(authorizer, nonce, signature);
    }

    function _transferAuthorized(Authorization memory order, bytes memory signature) private {
        _use(TRANSFER_WITH_AUTHORIZATION_TYPEHASH, order, signature);
        _move(order.from, order.to, order.value);
    }

    function _receiveAuthorized(Authorization memory order, bytes memory signature) private {
        require(order.to == msg.sender, "TestDollar: only the payee receives");
        _use(RECEIVE_WITH_AUTHORIZATION_TYPEHASH, order, signature);
        _move(order.from, order.to, order.value);
    }

    function _use(bytes32 kind, Authorization memory order, bytes memory signature) private {
        require(block.timestamp > order.validAfter, "TestDollar: authorization is not yet valid");
        require(block.timestamp < order.validBefore, "TestDollar: authorization is expired");
        _requireUnused(order.from, order.nonce);
        _requireSigned(order.from, keccak256(abi.encode(kind, order)), signature);
        authorizationState[order.from][order.nonce] = true;
        emit AuthorizationUsed(order.from, order.nonce);
    }

    function _cancel(address authorizer, bytes32 nonce, bytes memory signature) private {
        _requireUnused(authorizer, nonce);
        _requireSigned(
            authorizer, keccak256(abi.encode(CANCEL_AUTHORIZATION_TYPEHASH, authorizer, nonce)), signature
        );
        authorizationState[authorizer][nonce] = true;
        emit AuthorizationCanceled(authorizer, nonce);
    }

    function _requireUnused(address authorizer, bytes32 nonce) private view {
        require(!authorizationState[authorizer][nonce], "TestDollar: authorization is used or canceled");
    }

    function _requireSigned(address signer, bytes32 message, bytes memory signature) private view {
        bytes32 digest = keccak256(abi.encodePacked("\x19\x01", DOMAIN_SEPARATOR(), message));
        bool isSigned = signer.code.length == 0
            ? _isSignedByKey(signer, digest, signature)
            : _isSignedByContract(signer, digest, signature);
        require(isSigned, "TestDollar: invalid signature");
    }

    function _isSignedByKey(address signer, bytes32 digest, bytes memory signature) private pure returns (bool) {
        if (signature.length != 65) return false;
        (bytes32 r, bytes32 s) = (_word(signature, 32), _word(signature, 64));
        uint8 v = uint8(signature[64]);
        if (uint256(s) > HALF_ORDER || (v != 27 && v != 28)) return false;
        address recovered = ecrecover(digest, v, r, s);
        return recovered != address(0) && recovered == signer;
    }

    function _isSignedByContract(address signer, bytes32 digest, bytes memory signature) private view returns (bool) {
        (bool isAnswered, bytes memory answer) =
            signer.staticcall(abi.encodeWithSelector(EIP1271_MAGIC, digest, signature));
        return isAnswered && answer.length >= 32 && _word(answer, 32) == bytes32(EIP1271_MAGIC);
    }

    function _word(bytes memory text, uint256 offset) private pure returns (bytes32 word) {
        assembly ("memory-safe") {
            word := mload(add(text, offset))
        }
    }

    function _move(address from, address to, uint256 value) private {
        require(to != address(0), "TestDollar: to the zero address");
        uint256 held = balanceOf[from];
        require(value <= held, "TestDollar: more than the balance");
        balanceOf[from] = held - value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }
}
